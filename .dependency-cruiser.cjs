/** One home per library; services are islands; shared knows no service (docs/architecture.md). */
const home = (library, homes) => ({
  name: `${library}-has-one-home`,
  severity: "error",
  from: { path: "^(services|shared)/", pathNot: homes },
  to: { path: `node_modules/${library}/`, dependencyTypesNot: ["type-only"] },
});

module.exports = {
  forbidden: [
    {
      name: "services-are-islands",
      comment:
        "A need two services share is a noun in shared/. Only the program's command table joins services, and the demo shows dev.",
      severity: "error",
      from: { path: "^services/([^/]+)/", pathNot: "^services/(cli/main\\.ts$|demo/)" },
      to: { path: "^services/", pathNot: "^services/$1/" },
    },
    {
      name: "the-demo-shows-dev",
      severity: "error",
      from: { path: "^services/demo/" },
      to: { path: "^services/(?!demo/|dev/)" },
    },
    {
      name: "only-a-main-is-composed",
      severity: "error",
      from: { path: "^services/cli/main\\.ts$" },
      to: { path: "^services/(?!cli/)", pathNot: "/main\\.ts$" },
    },
    {
      name: "shared-knows-no-service",
      severity: "error",
      from: { path: "^shared/" },
      to: { path: "^(services|test|bench)/" },
    },
    {
      name: "only-dev-starts-processes",
      comment:
        "shared/dev starts Redis, a devnet and a stack for dev, the demo, tests and the bench; nothing else needs it.",
      severity: "error",
      from: { path: "^(services|shared)/", pathNot: "^(services/(dev|demo|devnet)|shared/dev)/" },
      to: { path: "^shared/dev/" },
    },
    {
      name: "the-ground-knows-nothing",
      severity: "error",
      from: { path: "^shared/(errors|time)/" },
      to: { path: "^(services|shared)/", pathNot: "^shared/(errors|time)/" },
    },
    {
      name: "ip-is-below-config",
      severity: "error",
      from: { path: "^shared/ip/" },
      to: { path: "^(services|shared)/", pathNot: "^shared/ip/" },
    },
    {
      name: "ethereum-is-below-config",
      severity: "error",
      from: { path: "^shared/ethereum/" },
      to: {
        path: "^shared/",
        pathNot: "^shared/((crypto|errors|ethereum|log|text|time)/|http/client\\.ts$)",
      },
    },
    {
      name: "json-schema-is-below-config",
      severity: "error",
      from: { path: "^shared/json-schema/" },
      to: { path: "^shared/", pathNot: "^shared/(json-schema|errors|text)/" },
    },
    {
      name: "config-is-below-pricing",
      severity: "error",
      from: { path: "^shared/config/" },
      to: {
        path: "^shared/",
        pathNot: "^shared/(config|crypto|errors|ethereum|ip|job-call|json-schema|senders|text|time)/",
      },
    },
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    { name: "no-folder-cycles", severity: "error", scope: "folder", from: {}, to: { circular: true } },
    { name: "resolvable", severity: "error", from: {}, to: { couldNotResolve: true } },
    home("ajv", "^shared/json-schema/"),
    home("bullmq", "^shared/queue/"),
    home("ioredis", "^shared/redis/"),
    home("express", "^shared/http/"),
    home("undici", "^(shared/http|services/producer)/"),
    home("smol-toml", "^shared/config/"),
    home("toml-eslint-parser", "^shared/config/toml-lines\\.ts$"),
    home("pino", "^shared/log/"),
    home("pino-pretty", "^shared/log/"),
    home("prom-client", "^shared/metrics/"),
    home("commander", "^services/cli/"),
    home("ipaddr.js", "^shared/ip/"),
    home("jose", "^services/x402-gateway/facilitator/cdp\\.ts$"),
    home("@noble/(curves|hashes)", "^shared/ethereum/"),
    home("hash-wasm", "^shared/ethereum/"),
    home("viem", "^services/(demo|devnet|cli/pay)/"),
    home("@grpc", "^services/pricing/"),
    home("psl", "^shared/config/"),
    home("grpc-health-check", "^services/pricing/"),
    home("secp256k1", "^shared/ethereum/"),
    home("@x402/core", "^services/(x402-gateway|devnet|demo)/"),
    home("@x402/(evm|extensions|fetch)", "^services/(devnet|cli/pay|demo)/"),
  ],
  options: {
    parser: "swc",
    tsPreCompilationDeps: true,
    metrics: true, // without it a rule about folders is not checked
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^services/operator-page/" }, // its parser reads no JSX: .ci/dependency-rules.mjs has the rules of the page
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "require", "node", "default"],
    },
  },
};
