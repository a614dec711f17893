# Kohort as an image: takes the settings that Apache Kafka's own image takes, so that only the image's name changes.
#
# The path of a request is compiled (docs/compiled.md) where the base has a C compiler or Debian's can be had, which takes
# minutes, once; without one the image is pure, and works as well. `--build-arg KOHORT_COMPILED=0`: pure, in seconds;
# `KOHORT_COMPILED=trained`: compiled for usual requests, in twice the time.
ARG KOHORT_BUILDER=python:3.11-slim
FROM $KOHORT_BUILDER AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG KOHORT_COMPILED=1
RUN wanted="${KOHORT_COMPILED:-0}"; \
    header="$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; \
    if [ "$wanted" != 0 ] && [ -e "$header" ] && ! command -v cc > /dev/null; then \
      { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; } || echo "no C compiler: the image is pure"; fi; \
    if [ -e "$header" ] && command -v cc > /dev/null; then echo "$wanted"; else echo 0; fi > /tmp/compiled
# What builds the wheel stays behind; it sees what the wheel will run with.
RUN python -m venv --without-pip /opt/venv && python -m venv --without-pip /opt/build \
    && echo /opt/venv/lib/python*/site-packages > "$(echo /opt/build/lib/python*/site-packages)/venv.pth"
WORKDIR /src
# What the project needs comes before the project: an edit of ours then installs nothing anew.
COPY pyproject.toml requirements.lock ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras, native = project['optional-dependencies'], open('/tmp/compiled').read().strip() != '0'; \
print('\n'.join([*project['dependencies'], *extras['cli'], *['librt', 'mypy-extensions'][:2 * native]]), file=open('/tmp/run', 'w')); \
tools = ['setuptools', *[word for word in extras['check'] if word.startswith('mypy')]] if native else []; \
print('\n'.join(['hatchling', *tools]), file=open('/tmp/build', 'w'))" \
    && for what in venv:run build:build; do \
         python -m pip --python /opt/${what%:*}/bin/python install --only-binary :all: -c requirements.lock -r /tmp/${what#*:} || exit 1; done
COPY . .
RUN wheel() { KOHORT_COMPILED=$1 python -m pip --python /opt/build/bin/python -v wheel --no-build-isolation --no-deps --wheel-dir /tmp/wheel .; }; \
    wheel "$(cat /tmp/compiled)" || { echo "it does not compile: the image is pure" && wheel 0; } \
    && python -m pip --python /opt/venv/bin/python install --no-deps --no-index /tmp/wheel/*.whl \
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
