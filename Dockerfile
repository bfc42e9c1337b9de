# One image for every process; the command says which.
FROM node:22.21.1-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY services/devnet/anvil services/devnet/anvil
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY shared shared
COPY services services
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:22.21.1-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
USER node
EXPOSE 9090 9091

# The event loop answers; whether Redis is there is a question for /readyz. A process at another ops address has its own POSTERN_LIVEZ.
ENV POSTERN_LIVEZ=http://127.0.0.1:9091/livez
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.POSTERN_LIVEZ).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "--enable-source-maps", "dist/services/cli/main.js"]
CMD ["--help"]
