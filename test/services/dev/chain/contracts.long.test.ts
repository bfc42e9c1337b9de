import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { test } from "vitest";

test("the devnet's committed contracts match the compilation of their sources", async () => {
  const script = new URL("../../../../services/dev/chain/contracts/compile.mjs", import.meta.url).pathname;
  await promisify(execFile)(process.execPath, [script, "--check"]);
});
