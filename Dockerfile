# One image for every process; the command says which. It holds the package, as npm packs it, and what an install of it brings.
# A new base needs its new digest, which this prints: docker buildx imagetools inspect node:26.10.0-trixie
FROM node:26.10.0-trixie@sha256:a723b54c35a76e947095a20a67d39585bb09c862e6b1adeb8a9f518f95e34fb0 AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY services/dev/chain/anvil services/dev/chain/anvil
RUN npm ci --ignore-scripts --no-audit --no-fund
# The curve's native module: prebuilt for linux/amd64, compiled here for other machines. Without it the image is not made.
RUN npm_config_nodedir=/usr/local npm explore secp256k1 -- npm run install && node -e 'require("secp256k1/bindings.js")'
COPY tsconfig.json tsconfig.build.json CHANGELOG.md LICENSE README.md ./
COPY config/example config/example
COPY config/schema config/schema
COPY docs docs
COPY shared shared
COPY services services
RUN npm run build && npm pack --ignore-scripts && mkdir package && tar -xzf postern-*.tgz -C package --strip-components 1
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:26.10.0-trixie-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package ./
COPY --from=build /app/node_modules node_modules
USER node
EXPOSE 9090 9091

# Asks the process of this container, at its ops address, or at POSTERN_LIVEZ if that is another. Whether Redis is there is a question for /readyz.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "dist/services/health/main.js"]

ENTRYPOINT ["node", "--max-semi-space-size=16", "--enable-source-maps", "dist/services/cli/main.js"]
CMD ["--help"]
