// Bundles the program and the operator's page into dist/services. It is plain JavaScript because it runs before
// anything is built.
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import { build as buildPage } from "vite";
import { entrySources } from "./build.mjs";
import { loaderPlugin } from "./loader.mjs";
import { writeThirdParty } from "./third-party.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** Returns the output path of a source: its path below `services`, without its extension. */
const placeOf = (source) => relative(join(root, "services"), join(root, source)).replace(/\.ts$/, "");

/**
 * Names a chunk. A lazily imported module keeps the name of its source. A chunk that several modules share is named
 * after one of them.
 */
function chunkFileName({ facadeModuleId, moduleIds, name }) {
  const facade = facadeModuleId && relative(root, facadeModuleId);
  if (facade?.startsWith("services/")) return `${placeOf(facade)}.js`;
  const isOfDemo = moduleIds.some((id) => relative(root, id).startsWith("services/dev/demo/"));
  return `${isOfDemo ? "demo" : "chunks"}/${name}.js`;
}

/**
 * One build has all programs and all exports of the package, so that a program with two parts loads their shared code
 * once. Each lazy import is a chunk. Nothing is minified, and each file has a source map, so that stack traces are
 * readable.
 */
const program = await build({
  cwd: root,
  input: Object.fromEntries(entrySources(root).map((source) => [placeOf(source), source])),
  platform: "node",
  // Optional peer dependencies are not bundled. Neither is gRPC: it reads its own .proto files, and only the pricing engine
  // loads it.
  external: [
    /^@grpc\//,
    "grpc-health-check",
    /^@x402\//,
    /^@opentelemetry\/(exporter|resources|sdk)/,
    /^viem(\/|$)/,
    "bufferutil",
    "utf-8-validate",
  ],
  plugins: [loaderPlugin],
  // ES modules are preferred, because their unused exports can be left out. BullMQ does not declare that its modules
  // permit this.
  resolve: { mainFields: ["module", "main"] },
  treeshake: { moduleSideEffects: [{ test: /node_modules\/bullmq\//, sideEffects: false }] },
  transform: { target: "node20.19" },
  logLevel: "warn",
  output: {
    dir: "dist/services",
    cleanDir: true,
    entryFileNames: "[name].js",
    chunkFileNames: chunkFileName,
    minifyInternalExports: false,
    sourcemap: true,
    sourcemapExcludeSources: true,
  },
});

const page = await buildPage({
  configFile: join(root, "services/console-page/vite.config.mjs"),
  logLevel: "warn",
});

writeThirdParty(
  root,
  [...program.output, ...page.output].flatMap(({ moduleIds = [] }) => moduleIds),
);
