import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/**
 * Builds the page as static files, which the console sends with a strict Content-Security-Policy. Nothing is inline,
 * and nothing is loaded from elsewhere. Its URLs are relative, so that it also works below a path of a proxy.
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
  // Makes the build independent of NODE_ENV. With `test`, each element would contain its source line.
  mode: "production",
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
});
