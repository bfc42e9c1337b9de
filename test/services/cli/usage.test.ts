import type { Command } from "commander";
import { expect, test } from "vitest";
import { ProgramCommand } from "../../../services/cli/command.ts";
import { leavesOf } from "../../../services/cli/output-options.ts";
import { buildProgram } from "../../../services/cli/program.ts";
import type { Surroundings } from "../../../services/cli/program-deps.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { runHere } from "./run-here.ts";

const ID = `c_${"0".repeat(32)}`;
const TRANSACTION = `0x${"ab".repeat(32)}`;
const RESOLVE = `payments resolve ${ID}`;

const INVALID = [
  "nope",
  "webhooks --nope",
  "webhooks --service-id -1",
  "webhooks --service-id 9007199254740992",
  "config check --nope",
  "failed replay",
  "failed replay --limit 1",
  "failed replay meta",
  `failed discard ${ID} --yes`,
  "failed discard --yes --reason x",
  "failed list --service-id -1",
  "failed list --job 1",
  "failed list --job 7/1 --service-id 7",
  "jobs pause 7/1",
  "jobs pause --reason x",
  "jobs pause 7 --reason x",
  "jobs resume 7/01",
  "jobs run-delayed",
  "calls run-now",
  "rejected list --endpoint /a --unknown",
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
  `${RESOLVE} c_1 --void --reason x`,
  `${RESOLVE} --void --all --reason x`,
  "payments resolve --void --payer 0x7099797051812dc3a010c7d01b50e0d17dc79c8d --reason x",
  "payments resolve --acknowledged --reason x",
  `${RESOLVE} --acknowledged --all --reason x`,
  `${RESOLVE} --settled --void --transaction ${TRANSACTION} --reason x`,
  `${RESOLVE} --void --transaction ${TRANSACTION} --reason x`,
  `${RESOLVE} --settled --transaction 0x12 --reason x`,
  "payments audit",
  "send",
  "send hooks",
  "send /a --header x",
  "send /a --repeat -1",
  "send /a --gateway ftp://x/",
  "redis adopt --reason x",
  "receipt verify answer.json",
  "receipt verify --issuer https://jobs.example.com",
  "tail --job 7",
  "tail --outcome lost",
  "tail --origin mail",
  "tail --call c_1",
];

test.each(sample(INVALID, 12))(
  "postern %s is refused with exit code 2, and nothing is started",
  async (line) => {
    const refused = await runHere(line.split(" "));
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toMatch(/^error: /);
  },
);

test.each([
  [
    "failed replay meta",
    "argument 'ids' value 'meta' is invalid: it must be a call id: c_ and 32 lower-case hex digits, or at least the first 4 of them; for example c_4f1b",
  ],
  [
    "jobs resume 7/01",
    "argument 'service/job' value '7/01' is invalid: it must have a job index from 0 to 2^53-1, in decimal, without leading zeros, not \"01\"; for example 7/1",
  ],
  [
    "failed replay --concurrency 0",
    "option '--concurrency <n>' value '0' is invalid: it must be an integer from 1 to 100; for example 8",
  ],
  [
    "redis-acl nope",
    "argument 'process' value 'nope' is invalid: it must be one of webhooks, x402, producer, runner, pricing, operator",
  ],
  [
    "rejected list --endpoint /a --unknown",
    "option '--unknown' cannot be used with option '--endpoint <path>'",
  ],
  [
    "pay http://x/ --body a --body-file b",
    "option '--body-file <file>' cannot be used with option '--body <text>'",
  ],
])("postern %s explains the problem in one sentence", async (line, problem) => {
  expect((await runHere(line.split(" "))).stderr).toContain(`error: ${problem}\n`);
});

/** Matches a sentence that says what a value must be, with an example or all choices. */
const HAS_EXAMPLE = /^it .*(for example|such as|must be one of) ./;

onlyInLongRun(() => {
  test("each option with a special format names itself and gives an example if its value is invalid", async () => {
    const program = buildProgram({ version: "0", env: {} } as Surroundings);
    const wordsOf = (command: Command): string[] =>
      command.parent === null ? [] : [...wordsOf(command.parent), command.name()];
    const tried: string[] = [];
    for (const command of leavesOf(program))
      for (const { long, flags, parseArg } of command.options) {
        if (parseArg === undefined) continue;
        const { code, stderr } = await runHere([...wordsOf(command), long ?? "", "!*"]);
        const begins = `error: option '${flags}' value '!*' is invalid: `;
        expect([code, stderr]).toEqual([2, expect.stringMatching(/\n$/)]);
        expect(stderr.slice(0, begins.length)).toBe(begins);
        expect(stderr.slice(begins.length).split("\n")[0]).toMatch(HAS_EXAMPLE);
        tried.push(flags);
      }
    expect(tried.length).toBeGreaterThan(50);
  });
});

test.each([
  "calls show !",
  "jobs resume !",
  "rejected show !",
  "pay !",
  "result !",
  "callbacks show-secret !",
  "send !",
  "redis-acl !",
  "openapi !",
  "redis remove-node !",
  "quote ! --job 1/1 --requester 0x0000000000000000000000000000000000000001",
])("postern %s names the argument and gives an example", async (line) => {
  const { code, stderr } = await runHere(line.split(" "));
  expect(code).toBe(2);
  const [, problem] = /^error: argument '[^']+' value '!' is invalid: (.*)\n/.exec(stderr) ?? [];
  expect(problem).toMatch(HAS_EXAMPLE);
});

test("the help of a command says which options are required", async () => {
  const { stdout } = await runHere(["failed", "discard", "--help"]);
  expect(stdout).toMatch(/--reason <text> +reason for the audit log \(required\)\n/);
  expect(stdout.match(/\(required\)/g)).toHaveLength(1);
});

test("the help of each command has examples, and marks its required arguments", async () => {
  const program = buildProgram({ version: "0", env: {} } as Surroundings);
  for (const command of leavesOf(program)) {
    const words = command.parent === program ? [] : [command.parent?.name() ?? ""];
    const { stdout } = await runHere([...words, command.name(), "--help"]);
    expect(stdout).toMatch(new RegExp(`\\nExamples:\n  postern ${[...words, command.name()].join(" ")}`));
  }
  expect((await runHere(["jobs", "show", "--help"])).stdout).toMatch(/service\/job +job.*\(required\)/s);
});

test("the examples in the help are valid command lines", async () => {
  const program = buildProgram({ version: "0", env: {}, terminal: { canAsk: true } } as Surroundings);
  const commands = leavesOf(program).filter((each) => each instanceof ProgramCommand);
  for (const { exampleLines } of commands) expect(exampleLines.length).toBeGreaterThan(0);
  for (const command of commands)
    for (const line of command.exampleLines) {
      const [ran] = await takenBy(line);
      expect([line, ran]).toEqual([line, `${command.parent?.name()} ${command.name()}`]);
    }
});

/** Returns the command that would run for this line of a shell. */
async function takenBy(line: string): Promise<string[]> {
  const program = buildProgram({
    ...({ version: "0", env: {}, terminal: { canAsk: true } } as Surroundings),
    printError: (text) => expect.fail(`${line}: ${text}`),
    exitWith: (code) => expect.fail(`${line}: ${code}`),
  });
  const ran: string[] = [];
  for (const command of leavesOf(program))
    command.action(() => void ran.push(`${command.parent?.name()} ${command.name()}`));
  const [shown = ""] = line.replace("$ADDRESS", `0x${"1".repeat(40)}`).split(" > ");
  const words = shown.match(/"[^"]*"|\S+/g) ?? [];
  await program.parseAsync(
    words.map((word) => word.replaceAll('"', "")),
    { from: "user" },
  );
  return ran;
}

test("the help of each command fits a screen of 80 columns", async () => {
  const program = buildProgram({ version: "0", env: {} } as Surroundings);
  const linesOf = async (command: Command, words: readonly string[]): Promise<string[]> => {
    const { stdout } = await runHere([...words, "--help"]);
    const below = command.commands.map((each) => linesOf(each, [...words, each.name()]));
    return [...stdout.split("\n"), ...(await Promise.all(below)).flat()];
  };
  const lines = await linesOf(program, []);
  expect(lines).toContain("  show [options] <service/job>            show the queue, limits and pause of a");
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

test("postern payments resolve with a blank reason is refused with exit code 2", async () => {
  expect(await runHere(["payments", "resolve", ID, "--void", "--reason", " "])).toMatchObject({ code: 2 });
});

test("postern jobs pause with a blank reason is refused with exit code 2", async () => {
  expect(await runHere(["jobs", "pause", "7/1", "--reason", " "])).toMatchObject({ code: 2 });
});

test.each([["--code", "runner.refused"], ["--all"]])(
  "postern failed replay with an id and %s is refused with exit code 2",
  async (...more) => {
    const { code, stderr } = await runHere(["failed", "replay", ID, ...more]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("ids, or filters, but not both")]);
  },
);

test("postern failed replay without a selection says that it needs --all", async () => {
  expect((await runHere(["failed", "replay"])).stderr).toContain("--all");
});
