# SPDX-License-Identifier: Apache-2.0
# The driver of the matrix: Python's standard library and no binding. Build from the top of the checkout.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/*
COPY interop-tests/docker/report.sh /usr/local/bin/report
COPY interop-tests/*.py interop-tests/*.toml /opt/flyring/interop-tests/
RUN install -d -o 1000 -g 1000 -m 0700 /disk
USER 1000:1000
ENV FLYRING_DIR=/shared/channels FLYRING_JOURNALS=/disk PYTHONUNBUFFERED=1
ENTRYPOINT ["python3", "/opt/flyring/interop-tests/matrix.py", "--sockets", "/shared/sockets", "--report", "/shared/report"]
