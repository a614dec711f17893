# Kohort as an image: takes the settings that Apache Kafka's own image takes, so that only the image's name changes.
FROM python:3.11-slim AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
RUN python -m venv --without-pip /opt/venv
WORKDIR /src
# What the project needs comes before the project: an edit of ours then rebuilds in a second.
COPY pyproject.toml requirements.lock ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print('\n'.join([*project['dependencies'], *project['optional-dependencies']['cli']]))" > /tmp/requirements.txt \
    && python -m pip --python /opt/venv/bin/python install --only-binary :all: -c requirements.lock -r /tmp/requirements.txt
COPY . .
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip --python /opt/venv/bin/python install --no-deps . \
    && { /opt/venv/bin/python -m compileall -q /opt/venv/lib || true; }

FROM python:3.11-slim
# Not every base ships its library compiled, and an unprivileged user cannot keep what it compiles: it would pay at every
# start.
RUN python -m compileall -q "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" > /dev/null || true
RUN groupadd --gid 1000 appuser && useradd --uid 1000 --gid 1000 --no-create-home --shell /usr/sbin/nologin appuser \
    && mkdir -p /var/lib/kafka/data /var/lib/kafka/keys /mnt/shared/config \
    && chown appuser:appuser /var/lib/kafka/data /var/lib/kafka/keys && chmod 700 /var/lib/kafka/data /var/lib/kafka/keys
COPY --from=build /opt/venv /opt/venv
# What existing compose files run as health checks and set-up: each is `kohort` by another name.
RUN mkdir -p /opt/kafka/bin \
    && for tool in topics consumer-groups configs broker-api-versions cluster get-offsets console-producer console-consumer; do \
         ln -s /opt/venv/bin/kohort "/opt/kafka/bin/kafka-$tool.sh"; done
ENV PATH=/opt/venv/bin:$PATH:/opt/kafka/bin PYTHONUNBUFFERED=1
USER appuser
EXPOSE 9092 9644 9645
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 CMD ["kohort", "health"]
CMD ["kohort", "serve", "--container"]
