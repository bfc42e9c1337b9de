import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/**
 * Builds the page as static files. The console sends them with a strict Content-Security-Policy. So the HTML has no
 * inline script or style, and the page loads nothing from other servers. The URLs in the files are relative, so that
 * the page also works if a proxy serves it below a path.
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
  // Without this, the build would depend on NODE_ENV. With NODE_ENV=test, for example, each JSX element would contain
  // the number of its source line.
  mode: "production",
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
});
