import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../../shared/config/read-webhooks.ts";
import { freePort } from "../../../../shared/dev/free-port.ts";
import { builtEntry } from "../../../../shared/dev/process.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { readX402 } from "../../../../shared/pricing/read-x402.ts";
import { PRESETS } from "../../../../shared/webhook-auth/presets/presets.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { needs } from "../../../support/needs.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern();
const ends = useEnds();
beforeEach(() => redis.client.flushdb());

const newDir = () => join(tempDir(), "config");

/** Makes a terminal that gives these answers, and records the questions. */
function answering(...answers: (string | undefined)[]) {
  const questions: string[] = [];
  const prompt = async (question: string) => {
    questions.push(question);
    return answers.shift();
  };
  return { questions, terminal: { canAsk: true, prompt } };
}

test("postern init asks three questions and writes the webhooks of the named sender", async () => {
  const dir = newDir();
  const { questions, terminal } = answering("webhooks", "github", "http://127.0.0.1:7000");
  const { code, stdout } = await runHere(["init", dir], {}, terminal);
  expect([code, questions]).toEqual([
    0,
    [
      "Accept webhooks, payments or both? [webhooks] ",
      "Who sends the webhooks? Enter a preset from docs/senders.md, such as github or stripe, or none [none] ",
      "What is the URL of your runner? [http://127.0.0.1:8645] ",
    ],
  ]);
  expect(readdirSync(dir).sort()).toEqual([".gitignore", "postern.toml", "secrets", "webhooks.toml"]);
  const { postern: common, webhooks } = loadConfig(readWebhooks, { dir, env: {} });
  expect(common.runner.url).toBe("http://127.0.0.1:7000");
  expect(webhooks?.endpoints).toMatchObject([{ path: "/hooks/github", job_id: 1, auth: "signature" }]);
  expect(stdout).toContain("the configuration is valid");
  expect(stdout).toContain(`\n  postern webhooks --config-dir ${dir}\n`);
  expect(stdout).toContain(`: postern dev --config-dir ${dir}\n`);
});

test.each([
  ["by npm in a clone", "postern", "npm run postern --"],
  ["by npx in a project that has the package", "npx", "npx postern"],
])("if postern init is called as %s, its printed commands use the same name", async (_, script, program) => {
  const dir = newDir();
  const { stdout } = await runHere(["init", dir, "--yes"], { npm_lifecycle_event: script });
  expect(stdout).toContain(`\n  ${program} webhooks --config-dir ${dir}\n`);
  expect(stdout.replaceAll(program, "")).not.toMatch(/postern (?:webhooks|producer|runner|dev)/);
});

test("the secrets of postern init are new, readable only by their owner, and ignored by git", async () => {
  const secrets = new Set<string>();
  for (const dir of [newDir(), newDir()]) {
    expect(await runHere(["init", dir, "--yes", "--accept", "both"])).toMatchObject({ code: 0 });
    for (const name of readdirSync(join(dir, "secrets"))) {
      const path = join(dir, "secrets", name);
      expect(statSync(path).mode & 0o777, name).toBe(0o600);
      secrets.add(readFileSync(path, "utf8"));
    }
    expect(statSync(join(dir, "secrets")).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(dir, ".gitignore"), "utf8")).toBe("/secrets/\n");
    const texts = readdirSync(dir).filter((name) => name.endsWith(".toml"));
    for (const name of texts)
      for (const secret of secrets)
        expect(readFileSync(join(dir, name), "utf8")).not.toContain(secret.trim());
  }
  expect(secrets.size).toBe(8);
});

test("postern init makes a valid configuration for every preset", async () => {
  for (const preset of sample(Object.keys(PRESETS), 3)) {
    const dir = newDir();
    const ran = await runHere(["init", dir, "--yes", "--preset", preset]);
    expect([preset, ran.code, ran.stderr]).toEqual([preset, 0, ""]);
    expect(loadConfig(readWebhooks, { dir, env: {} }).webhooks?.endpoints[0]?.path).toBe(`/hooks/${preset}`);
  }
});

test("postern init sells a job at the given price, in tokens of the devnet or of Base Sepolia", async () => {
  const own = newDir();
  const { questions, terminal } = answering("payments", "0.25", "");
  expect(await runHere(["init", own, "--job-index", "7"], {}, terminal)).toMatchObject({ code: 0 });
  expect(questions[1]).toBe("What is the price of a call, in USDC? [0.05] ");
  const { prices, x402, webhooks } = loadConfig(readX402, { dir: own, env: {} });
  expect([prices.get("0/7")?.priceWei, webhooks]).toEqual([250_000_000_000_000_000n, undefined]);
  expect(x402?.accepted_tokens[0]?.rate_per_native_unit).toBe("1");

  const payTo = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
  const test = newDir();
  const args = [
    "init",
    test,
    "--yes",
    "--accept",
    "payments",
    "--network",
    "base-sepolia",
    "--pay-to",
    payTo,
  ];
  expect(await runHere(args)).toMatchObject({ code: 0 });
  expect(loadConfig(readX402, { dir: test, env: {} }).x402?.accepted_tokens[0]?.pay_to).toBe(payTo);
});

test("postern init asks again after an invalid answer, and suggests a similar value", async () => {
  const { questions, terminal } = answering("webhook", "webhooks", "gihtub", "github", "localhost", "");
  expect(await runHere(["init", newDir()], {}, terminal)).toMatchObject({ code: 0 });
  expect(questions[1]).toMatch(
    /^"webhook" must be webhooks, payments or both; did you mean webhooks\?\nAccept webhooks/,
  );
  expect(questions[3]).toMatch(
    /^"gihtub" must be a preset from docs\/senders\.md, such as github, or none; did you mean github\?\nWho sends/,
  );
  expect(questions[5]).toMatch(/^"localhost" must be an http or https URL\nWhat is the URL of your runner/);
});

test("postern init writes nothing if the user quits at a question", async () => {
  for (const answers of [
    [undefined],
    ["both", undefined],
    ["both", "", undefined],
    ["both", "", "", undefined],
  ]) {
    const dir = newDir();
    const ran = await runHere(["init", dir], {}, answering(...answers).terminal);
    expect(ran).toMatchObject({ code: 1, stderr: "nothing was written\n" });
    expect(existsSync(dir)).toBe(false);
  }
});

test("postern init overwrites a file only after confirmation or with --force, and never overwrites a secret", async () => {
  const dir = newDir();
  mkdirSync(join(dir, "secrets"), { recursive: true });
  writeFileSync(join(dir, "postern.toml"), "drain_secs = 7\n");
  writeFileSync(join(dir, ".gitignore"), "*.bak");
  writeFileSync(join(dir, "secrets", "runner"), "a secret that is known elsewhere");
  chmodSync(join(dir, "secrets", "runner"), 0o600);
  const args = ["init", dir, "--accept", "webhooks", "--preset", "github", "--runner", "http://127.0.0.1:1"];
  const kept = () => expect(readFileSync(join(dir, "postern.toml"), "utf8")).toBe("drain_secs = 7\n");

  const { questions, terminal } = answering("");
  expect(await runHere(args, {}, terminal)).toMatchObject({ code: 1, stderr: "nothing was written\n" });
  expect(questions).toEqual([
    `These files already exist: ${join(dir, "postern.toml")}. Overwrite them? [y/N] `,
  ]);
  kept();
  const refused = await runHere([...args, "--yes"]);
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining("use --force to overwrite them"),
  ]);
  kept();
  expect(existsSync(join(dir, "webhooks.toml"))).toBe(false);

  expect(await runHere(args, {}, answering("y").terminal)).toMatchObject({ code: 0 });
  const id = () => loadConfig(readWebhooks, { dir, env: {} }).postern.redis.deployment_id;
  const before = id();
  expect(before).toMatch(/^\d{4}-\d{2}-\d{2}-[0-9a-f]{8}$/);
  expect(await runHere([...args, "--yes", "--force"])).toMatchObject({ code: 0 });
  expect(id()).toBe(before);
  expect(readFileSync(join(dir, "secrets", "runner"), "utf8")).toBe("a secret that is known elsewhere");
  expect(readFileSync(join(dir, ".gitignore"), "utf8")).toBe("*.bak\n/secrets/\n");
});

test.each([
  [["--accept", "webhooks"], /^error: --yes is required when stdin is not a terminal; see --help/],
  [
    ["--yes", "--preset", "gihtub"],
    /^error: option '--preset <name>' value 'gihtub' is invalid: it must be a preset from docs\/senders\.md, such as github, or none; did you mean github\?/,
  ],
  [
    ["--yes", "--runner", "ftp://x"],
    /^error: option '--runner <url>' value 'ftp:\/\/x' is invalid: it must be an http or https URL; for example http/,
  ],
  [
    ["--yes", "--accept", "payments", "--network", "base-sepolia", "--pay-to", "0x1"],
    /^error: option '--pay-to <address>' value '0x1' is invalid: it must be .*; for example 0x7099…\n$/,
  ],
  [
    ["--yes", "--accept", "payments", "--price", "0"],
    /--price <amount>' value '0' is invalid: it must be an amount above 0 .*, such as 0\.05\n$/,
  ],
  [
    ["--yes", "--accept", "payments", "--network", "base-sepolia"],
    /--network base-sepolia requires --pay-to/,
  ],
  [["--yes", "--accept", "webhoks"], /--accept/],
] as [string[], RegExp][])("postern init %j exits with 2 and says why", async (options, problem) => {
  const dir = newDir();
  const { code, stderr } = await runHere(["init", dir, ...options]);
  expect([code, stderr]).toEqual([2, expect.stringMatching(problem)]);
  expect(existsSync(dir)).toBe(false);
});

onlyInLongRun(() => {
  test("a gateway with a configuration of postern init accepts the sender's webhooks", async () => {
    const dir = newDir();
    const args = ["init", dir, "--yes", "--accept", "both", "--preset", "gitlab", "--redis-url", redis.url];
    expect(await runHere(args)).toMatchObject({ code: 0, stderr: "" });
    const bind = ["--bind-address", String(await freePort()), "--ops-address", "127.0.0.1:0"];
    const gateway = postern.start(["webhooks", "--config-dir", dir, "--service-id", "7", ...bind]);
    const { address, opsAddress } = await gateway.waitForEvent("service.started");
    await eventually("it is ready", async () => (await fetch(`http://${opsAddress}/readyz`)).status === 200);
    const secret = readFileSync(join(dir, "secrets", "gitlab"), "utf8").trim();
    const deliver = (token: string) =>
      send(address as string, {
        ...{ method: "POST", path: "/hooks/gitlab", headers: { "X-Gitlab-Token": token }, body: "{}" },
      });
    expect((await deliver(secret)).status).toBe(202);
    expect((await deliver("another")).status).toBe(401);
  });

  const devnet = useDevnet();
  test("a gateway with a configuration of postern init sells its job for the tokens of a devnet", async () => {
    const dir = newDir();
    const args = ["init", dir, "--yes", "--accept", "payments", "--redis-url", redis.url];
    expect(await runHere(args)).toMatchObject({ code: 0 });
    const path = join(dir, "x402.toml");
    const text = readFileSync(path, "utf8");
    writeFileSync(
      path,
      text
        .replace("http://127.0.0.1:8546", devnet.facilitatorUrl)
        .replace("http://127.0.0.1:8545", devnet.rpcUrl),
    );
    const bind = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
    const gateway = postern.start(["x402", "--config-dir", dir, ...bind]);
    const { address } = await gateway.waitForEvent("service.started");
    const answer = await fetch(`http://${address}/x402/jobs/0/1/price`);
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { settlement_options: [{ amount: "50000" }], price_wei: "50000000000000000" },
    ]);
  });
});

test("postern init asks its questions at a real terminal", needs("script"), async () => {
  const dir = newDir();
  const command = [process.execPath, ...builtEntry("services/cli/main.js"), "init", dir].join(" ");
  const terminal = spawn("script", ["-qefc", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"] });
  ends.defer(() => terminal.kill("SIGKILL"));
  const answers = [
    ["Accept webhooks, payments or both", "\n"],
    ["Who sends the webhooks", "stripe\n"],
    ["What is the URL of your runner", "\n"],
  ] as [string, string][];
  let said = "";
  terminal.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
    const [next] = answers;
    if (next === undefined || !said.includes(next[0]) || !stripVTControlCharacters(said).endsWith("] "))
      return;
    answers.shift();
    terminal.stdin.write(next[1]);
  });
  const code = await new Promise((resolve) => terminal.on("close", resolve));
  expect([code, said]).toEqual([0, expect.stringContaining("the configuration is valid")]);
  expect(loadConfig(readWebhooks, { dir, env: {} }).webhooks?.endpoints[0]?.path).toBe("/hooks/stripe");
});
