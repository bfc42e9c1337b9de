import { expect, test } from "vitest";
import { runHere } from "./run-here.ts";

const ID = `c_${"0".repeat(32)}`;
const TRANSACTION = `0x${"ab".repeat(32)}`;
const RESOLVE = `payments resolve ${ID}`;

test.each([
  "nope",
  "webhooks --nope",
  "webhooks --service-id -1",
  "webhooks --service-id 9007199254740992",
  "check-config --nope",
  "failed replay",
  "failed replay --limit 1",
  "failed replay meta",
  `failed discard ${ID} --yes`,
  "failed discard --yes --reason x",
  "failed list --service -1",
  "jobs pause 7/1",
  "jobs pause --reason x",
  "jobs pause 7 --reason x",
  "jobs resume 7/01",
  "rejected list --path /a --unknown",
  "rejected list --code nope",
  "rejected list --limit -1",
  "rejected show r_1",
  "pay ftp://x/",
  "pay Order",
  "pay order",
  "pay order --gateway x",
  "pay http://x/ --gateway http://y/",
  "pay http://x/ --max -1",
  "pay http://x/ --body a --body-file b",
  "pay http://x/ --token USDC=6",
  "pay http://x/ --key 0x1",
  "payments reconcile",
  `payments reconcile ${ID} --all`,
  `${RESOLVE} --void`,
  `${RESOLVE} --reason x`,
  `${RESOLVE} --settled --reason x`,
  `${RESOLVE} --settled --void --transaction ${TRANSACTION} --reason x`,
  `${RESOLVE} --void --transaction ${TRANSACTION} --reason x`,
  `${RESOLVE} --settled --transaction 0x12 --reason x`,
  "payments audit",
  "send",
  "send hooks",
  "send /a --header x",
  "send /a --repeat -1",
  "send /a --url ftp://x/",
  "tail --job 7",
  "tail --outcome lost",
  "tail --origin mail",
  "tail --call c_1",
])("postern %s is refused with exit code 2, and nothing is started", async (line) => {
  const refused = await runHere(line.split(" "));
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(refused.stderr).toMatch(/^error: /);
});

test("postern payments resolve with a blank reason is refused with exit code 2", async () => {
  expect(await runHere(["payments", "resolve", ID, "--void", "--reason", " "])).toMatchObject({ code: 2 });
});

test("postern jobs pause with a blank reason is refused with exit code 2", async () => {
  expect(await runHere(["jobs", "pause", "7/1", "--reason", " "])).toMatchObject({ code: 2 });
});

test("postern failed replay without a selection says that it wants --all", async () => {
  expect((await runHere(["failed", "replay"])).stderr).toContain("--all");
});
