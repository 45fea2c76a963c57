# SPDX-License-Identifier: Apache-2.0
# The C++ peer and demo. Build from the top of the checkout.
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential cmake libgtest-dev nlohmann-json3-dev
WORKDIR /src
COPY cpp cpp
RUN cmake -S cpp -B build/cpp -DFLYRING_BUILD_TESTS=ON -DFLYRING_BUILD_DEMOS=ON \
 && cmake --build build/cpp --parallel "$(nproc)" --target flyring-peer flyring-demo \
 && strip build/cpp/peer/flyring-peer build/cpp/demo/flyring-demo

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libstdc++6 \
 && rm -rf /var/lib/apt/lists/*
COPY interop-tests/docker/peer.sh /usr/local/bin/peer
COPY --from=build /src/build/cpp/peer/flyring-peer /src/build/cpp/demo/flyring-demo /usr/local/bin/
RUN install -d -o 1000 -g 1000 -m 0700 /disk
USER 1000:1000
ENV FLYRING_DIR=/shared/channels
CMD ["peer", "cpp", "flyring-peer"]
