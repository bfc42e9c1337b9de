import { expect, test } from "vitest";
import { checkConfig } from "../../../services/cli/check-config.ts";
import type { ProgramDeps } from "../../../services/cli/program-deps.ts";
import { JOBS, x402, x402Dir } from "../../shared/config/x402-files.ts";

async function check(files: Parameters<typeof x402Dir>[0]): Promise<{ code: number; text: string }> {
  const said: string[] = [];
  const print = (line: string) => said.push(line);
  const deps = { env: {}, print, printError: print } as unknown as ProgramDeps;
  const code = await checkConfig(deps, { configDir: x402Dir(files) });
  return { code, text: said.join("") };
}

test("check-config counts the jobs and tokens that are sold, and exits with 0", async () => {
  const { code, text } = await check({ x402: x402(), jobs: JOBS });
  expect([code, text]).toEqual([0, expect.stringContaining("x402 gateway: 1 priced job, 1 token")]);
});
test("check-config exits with 3 for a wrong file of any kind", async () => {
  for (const files of [{ x402: "a = 1" }, { jobs: "a = 1" }, { postern: "a = 1" }])
    expect(await check(files)).toMatchObject({ code: 3 });
});
