import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../../services/cli/program.ts";
import type { Surroundings } from "../../../services/cli/program-deps.ts";
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

test.each([
  [
    "failed replay meta",
    "value 'meta' is invalid for argument 'ids': it must be a call id: c_ and 32 lower-case hex digits",
  ],
  [
    "jobs resume 7/01",
    "value '7/01' is invalid for argument 'service/job': it must have a job index from 0 to 2^53-1, in decimal, without leading zeros, not \"01\"",
  ],
  [
    "failed replay --concurrency 0",
    "option '--concurrency <n>' argument '0' is invalid: concurrency must be an integer from 1 to 100",
  ],
  [
    "redis-acl nope",
    "value 'nope' is invalid for argument 'process'. Allowed choices are webhooks, x402, producer, runner, pricing, operator.",
  ],
])("postern %s says in one sentence what is wrong", async (line, problem) => {
  expect((await runHere(line.split(" "))).stderr).toContain(`error: ${problem}\n`);
});

test("the help of each command fits a screen of 80 columns", async () => {
  const program = buildProgram({ version: "0", env: {} } as Surroundings);
  const linesOf = async (command: Command, words: readonly string[]): Promise<string[]> => {
    const { stdout } = await runHere([...words, "--help"]);
    const below = command.commands.map((each) => linesOf(each, [...words, each.name()]));
    return [...stdout.split("\n"), ...(await Promise.all(below)).flat()];
  };
  const lines = await linesOf(program, []);
  expect(lines).toContain("  resume [options] <service/job...>  start injecting the calls of these jobs");
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
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
