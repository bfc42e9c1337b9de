import { chmodSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";
import { usePostern } from "../../../fixtures/postern.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { withoutAnvil } from "../../../support/without-anvil.ts";
import { PATIENCE_MS, SUM, startDemo, wrongIn } from "./start-demo.ts";

const postern = usePostern();

function startWithoutAnvil(env: NodeJS.ProcessEnv) {
  const { dist, env: without } = withoutAnvil();
  const path = [env["PATH"], without["PATH"]].filter((dir) => dir !== undefined).join(delimiter);
  const program = [join(dist, "services/dev/demo/main.js")];
  return startDemo(postern, ["--exit"], { program, env: { ...without, ...env, PATH: path } });
}

/** Makes a folder with a curl that sends nothing. */
function silentCurl(): string {
  const dir = tempDir();
  writeFileSync(join(dir, "curl"), "#!/bin/sh\n");
  chmodSync(join(dir, "curl"), 0o755);
  return dir;
}

test("a demo without anvil says so, shows the rest and exits with 0", { timeout: PATIENCE_MS }, async () => {
  const { demo, text } = startWithoutAnvil({ CI: "" });
  expect([await demo.exit, wrongIn(text())]).toEqual([{ code: 0, signal: null }, []]);
  expect(text()).toMatch(/needs anvil[\s\S]*the chapters about payments are skipped$/m);
  expect(text().match(/^\d+\. /gm)).toHaveLength(5);
  expect(text()).toMatch(SUM);
  expect(text()).not.toContain("USDC");
});

test("a demo reports problems, such as payments that are left out with CI set, still shows its counts, and exits with 1", {
  timeout: PATIENCE_MS,
}, async () => {
  const { demo, text } = startWithoutAnvil({ CI: "true", PATH: silentCurl() });
  expect(await demo.exit).toEqual({ code: 1, signal: null });
  expect(text()).toMatch(/^ {2}NO .*the chapters about payments are skipped/m);
  expect(text()).toMatch(/^ {2}NO .*expected 202, found 0$/m);
  expect(text()).toMatch(/^Shown: .* \d+ failed \(NO\)$/m);
});
