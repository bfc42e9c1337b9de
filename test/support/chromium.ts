import { findProgram } from "../../shared/dev/find-program.ts";

/** The path of Chromium; undefined if there is none, so that a test can say so and be skipped. Throws with CI=true. */
export function findChromium(): string | undefined {
  const path = findProgram(["chromium", "chromium-browser", "google-chrome"], process.env);
  if (path === undefined && process.env["CI"] === "true")
    throw new Error("CI needs Chromium: apt-get install chromium");
  if (path === undefined)
    console.warn(
      "Chromium is not installed (apt-get install chromium): the tests of the operator's page are skipped",
    );
  return path;
}
