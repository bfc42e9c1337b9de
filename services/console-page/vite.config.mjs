import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/**
 * The page is static files that its service sends with a strict Content-Security-Policy: nothing is inline, and nothing is fetched
 * from elsewhere. Its addresses are relative, so that it also works below a path of a proxy.
 */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "./",
  publicDir: false,
  build: {
    outDir: fileURLToPath(new URL("../../dist/services/console-page", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  // The same is built wherever it is built: a test's NODE_ENV would have it say in which line each element stands.
  mode: "production",
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
});
