# SPDX-License-Identifier: Apache-2.0
# The Python peer and demo. Build from the top of the checkout.
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential python3-dev python3-venv
WORKDIR /src
COPY python python
COPY spec/sbe spec/sbe
RUN python3 -m venv /opt/flyring \
 && /opt/flyring/bin/pip install --no-cache-dir "./python[demo]" ./python/peer \
 && /opt/flyring/bin/pip uninstall -y setuptools pip

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/*
COPY interop-tests/docker/peer.sh /usr/local/bin/peer
COPY --from=build /opt/flyring /opt/flyring
RUN install -d -o 1000 -g 1000 -m 0700 /disk
USER 1000:1000
ENV FLYRING_DIR=/shared/channels PATH=/opt/flyring/bin:/usr/local/bin:/usr/bin:/bin
CMD ["peer", "python", "python3", "-m", "flyring_peer"]
