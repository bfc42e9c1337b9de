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
        "A need two services share is a noun in shared/. Only the program's command table joins services.",
      severity: "error",
      from: { path: "^services/([^/]+)/", pathNot: "^services/cli/main\\.ts$" },
      to: { path: "^services/", pathNot: "^services/$1/" },
    },
    {
      name: "the-local-chain-is-an-island",
      comment:
        "It is a process of its own: the rest of services/dev starts it, and neither imports the other.",
      severity: "error",
      from: { path: "^services/dev/", pathNot: "^services/dev/chain/" },
      to: { path: "^services/dev/chain/" },
    },
    {
      name: "the-local-chain-knows-no-dev",
      severity: "error",
      from: { path: "^services/dev/chain/" },
      to: { path: "^services/dev/", pathNot: "^services/dev/chain/" },
    },
    {
      name: "the-demo-shows-dev",
      severity: "error",
      from: { path: "^services/dev/", pathNot: "^services/dev/demo/" },
      to: { path: "^services/dev/demo/" },
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
      from: { path: "^(services|shared)/", pathNot: "^(services|shared)/dev/" },
      to: { path: "^shared/dev/" },
    },
    {
      name: "the-ground-knows-nothing",
      severity: "error",
      from: { path: "^shared/platform/(errors|time)/" },
      to: { path: "^(services|shared)/", pathNot: "^shared/platform/(errors|time)/" },
    },
    {
      name: "ip-is-below-config",
      severity: "error",
      from: { path: "^shared/http/ip/" },
      to: { path: "^(services|shared)/", pathNot: "^shared/http/ip/" },
    },
    {
      name: "chain-is-below-config",
      severity: "error",
      from: { path: "^shared/chain/" },
      to: {
        path: "^shared/",
        pathNot: "^shared/((chain|platform/(crypto|errors|log|text|time|traces))/|http/client\\.ts$)",
      },
    },
    {
      name: "json-schema-is-below-config",
      severity: "error",
      from: { path: "^shared/platform/json-schema/" },
      to: { path: "^shared/", pathNot: "^shared/platform/(json-schema|errors|text)/" },
    },
    {
      name: "config-is-below-pricing",
      severity: "error",
      from: { path: "^shared/config/" },
      to: {
        path: "^shared/",
        pathNot:
          "^shared/(call/[^/]+$|(chain|config|http/ip|platform/(crypto|errors|json-schema|text|time)|webhook-auth)/)",
      },
    },
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    { name: "no-folder-cycles", severity: "error", scope: "folder", from: {}, to: { circular: true } },
    { name: "resolvable", severity: "error", from: {}, to: { couldNotResolve: true } },
    home("ajv", "^shared/platform/json-schema/"),
    home("bullmq", "^(shared/queue|services/producer/consumer)/"),
    home("ioredis", "^shared/redis/"),
    home("express", "^shared/http/"),
    home("undici", "^(shared/http|services/producer)/"),
    home("smol-toml", "^shared/config/"),
    home("toml-eslint-parser", "^shared/config/toml-lines\\.ts$"),
    home("pino", "^shared/platform/log/"),
    home("pino-pretty", "^shared/platform/log/"),
    home("prom-client", "^shared/platform/metrics/"),
    home("commander", "^services/cli/"),
    home("ipaddr.js", "^shared/http/ip/"),
    home("jose", "^services/(x402-gateway/facilitator/cdp|webhooks-gateway/jwt-check)\\.ts$"),
    home("@noble/(curves|hashes)", "^shared/chain/"),
    home("hash-wasm", "^shared/chain/"),
    home("viem", "^services/(dev/(chain|demo)|cli/pay)/"),
    home("@grpc", "^services/pricing/"),
    home("@opentelemetry", "^shared/platform/traces/"),
    home("psl", "^shared/config/"),
    home("@marcbachmann/cel-js", "^shared/webhook-auth/filter/"),
    home("grpc-health-check", "^services/pricing/"),
    home("secp256k1", "^shared/chain/"),
    home("@x402/core", "^services/(x402-gateway|dev/(chain|demo))/"),
    home("@x402/(evm|extensions|fetch)", "^services/(dev/(chain|demo)|cli/pay)/"),
  ],
  options: {
    parser: "swc",
    tsPreCompilationDeps: true,
    metrics: true, // without it a rule about folders is not checked
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^services/console-page/" }, // its parser reads no JSX: .ci/dependency-rules.mjs has the rules of the page
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "require", "node", "default"],
    },
  },
};
