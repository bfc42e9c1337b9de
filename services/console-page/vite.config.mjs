import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/**
 * Builds the page as static files, which the console sends with a strict Content-Security-Policy. Nothing is inline,
 * and nothing is loaded from elsewhere. The URLs in the files are relative, so that the page also works below a path of
 * a proxy.
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
  // Makes the build independent of NODE_ENV. With NODE_ENV=test, each JSX element would contain the number of its
  // source line.
  mode: "production",
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
});
