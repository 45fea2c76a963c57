# SPDX-License-Identifier: Apache-2.0
# The Java peer and demo. Build from the top of the checkout.
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends maven openjdk-17-jdk-headless
WORKDIR /src
COPY java java
COPY spec/sbe spec/sbe
RUN mvn -B -q -f java/pom.xml -DskipTests package

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY interop-tests/docker/peer.sh /usr/local/bin/peer
COPY --from=build /src/java/demo/target/flyring-demo-all.jar /src/java/peer/target/flyring-peer-all.jar /usr/local/lib/
RUN install -d -o 1000 -g 1000 -m 0700 /disk
USER 1000:1000
ENV FLYRING_DIR=/shared/channels
CMD ["peer", "java", "java", "-cp", "/usr/local/lib/flyring-peer-all.jar", "io.flyring.peer.Peer"]
