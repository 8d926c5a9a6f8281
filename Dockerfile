# syntax=docker/dockerfile:1

# The base has glibc, for which lmdb and @node-rs/argon2 ship prebuilt binaries (linux/amd64 and
# linux/arm64). No package runs an install script, so nothing is compiled.
FROM node:26-trixie-slim AS base
WORKDIR /app

# The program itself is the same for every platform, so it is built on the builder's own.
FROM --platform=$BUILDPLATFORM node:26-trixie-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.base.json tsconfig.build.json tsconfig.verify.json ./
COPY bin ./bin
COPY scripts/build-program.mjs scripts/unmapped.mjs ./scripts/
COPY src ./src
RUN npm run build

FROM base AS dependencies
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM base AS image
LABEL org.opencontainers.image.title="latchkey" \
      org.opencontainers.image.description="An authentication sidecar in front of HTTP APIs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
ENV NODE_ENV=production
# Package managers have no use here; the data folder belongs to the user that serves, and
# `docker exec` finds the command.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-* \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/latchkey \
    && ln -s /app/bin/latchkey.js /usr/local/bin/latchkey
COPY LICENSE package.json ./
COPY bin ./bin
COPY config ./config
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist/program ./dist/program
COPY --from=build /app/dist/ui ./dist/ui
# Keeps what V8 compiles for a server, a health check and `check` beside the program, which is read-only
# later: a start takes a third less.
RUN printf '%s\n' 'listen: { port: 0 }' 'admin: { port: 61901 }' 'upstream: http://127.0.0.1:1' \
      'store: { type: lmdb, path: data }' > /tmp/latchkey.yaml \
    && latchkey check --config /tmp/latchkey.yaml \
    && { node bin/latchkey.js serve --config /tmp/latchkey.yaml & server=$!; } \
    && until latchkey healthcheck --config /tmp/latchkey.yaml; do kill -0 $server && sleep 1 || exit 1; done \
    && kill $server && wait $server && rm -rf /tmp/latchkey.yaml /tmp/data

USER 65532:65532
VOLUME ["/var/lib/latchkey"]
# Public and admin ports, and those for proxies that ask first.
EXPOSE 8080 9901 9902 9903
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "/app/bin/latchkey.js", "healthcheck", "--config", "/etc/latchkey/latchkey.yaml"]
ENTRYPOINT ["node", "/app/bin/latchkey.js"]
CMD ["serve", "--config", "/etc/latchkey/latchkey.yaml"]
