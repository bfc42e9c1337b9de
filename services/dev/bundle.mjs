// Bundles all programs and the console's page into dist/services. It is plain JavaScript because it runs before
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
 * Returns the file name of a chunk, a part of the bundle that programs load on demand or share. A module that is
 * imported lazily keeps the path of its source. A shared chunk is named after one of its modules.
 */
function chunkFileName({ facadeModuleId, moduleIds, name }) {
  const facade = facadeModuleId && relative(root, facadeModuleId);
  if (facade?.startsWith("services/")) return `${placeOf(facade)}.js`;
  const isOfDemo = moduleIds.some((id) => relative(root, id).startsWith("services/dev/demo/"));
  return `${isOfDemo ? "demo" : "chunks"}/${name}.js`;
}

/**
 * Bundle of all programs and all exports of the package. They are built together, so that code which several of them
 * need is in one shared file. A process that runs two of them then loads it once. Each lazily imported module gets its
 * own file. Nothing is minified, and each file has a source map, so that stack traces are readable.
 */
const program = await build({
  cwd: root,
  input: Object.fromEntries(entrySources(root).map((source) => [placeOf(source), source])),
  platform: "node",
  // These packages are not bundled but loaded from node_modules. Most are optional, and a user installs them if needed.
  // gRPC reads its own .proto files, and only the pricing engine loads it.
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
  // A package's ES modules are preferred, because the bundler can leave out their unused exports. BullMQ does not declare
  // that its modules permit this, so `moduleSideEffects` declares it.
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
