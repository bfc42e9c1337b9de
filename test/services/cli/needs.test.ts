import { describe, expect, test } from "vitest";
import { devToken } from "../../../shared/dev/config.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { runHereWith } from "./run-here.ts";

/* Commands and services read only the files and secrets that they use. */

const redis = useRedis();
const ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const ABSENT = "env:POSTERN_NOT_SET_HERE";

/** Files whose secrets are all in variables that are not set, except the URL of Redis. */
const postern = usePostern(() => ({
  postern: {
    redis: { url: redis.url },
    runner: { secret: ABSENT, redis: { url: ABSENT } },
    runners: { reports: { url: "http://127.0.0.1:1", secret: ABSENT } },
    jobs: { "1/1": { runner: "reports" } },
  },
  webhooks: {
    endpoints: [
      { path: "/hooks/github", job_id: 1, preset: "github", secret: ABSENT },
      { path: "/hooks/asana", job_id: 1, auth: "bearer", secret: ABSENT },
    ],
  },
  x402: {
    public_url: "https://jobs.example.com",
    facilitators: [{ url: "https://facilitator.example.com", headers: { Authorization: ABSENT } }],
    quote_secret: ABSENT,
    accepted_tokens: [
      devToken({ network: "eip155:84532", token: ADDRESS, seller: ADDRESS, rpcUrl: "http://127.0.0.1:1" }),
      {
        ...devToken({ network: "eip155:1", token: ADDRESS, seller: ADDRESS, rpcUrl: ABSENT }),
        rate_per_native_unit: { source: "http_json", url: ABSENT, pointer: "/a", headers: {} },
      },
    ],
  },
  job_pricing: { "1": { "1": "no price" } },
  pricing: { key: ABSENT, domain: { chain_id: 1, verifying_contract: ADDRESS } },
}));
const here = runHereWith(postern);

const OF_OPERATORS = [
  "status -o json",
  "failed replay --all",
  "payments reconcile --all",
  "calls list",
  "failed list",
  "failed discard --all --dry-run --reason test",
  "jobs list",
  "rejected list",
  "rejected list --endpoint /hooks/github",
  "payments list",
  "refunds list",
];

test.each(sample(OF_OPERATORS, 3))("postern %s needs no secret except that of Redis", async (line) => {
  const ran = await here(line.split(" "));
  expect(ran).toMatchObject({ code: 0, stderr: expect.not.stringContaining("not set") });
});

test("postern jobs pause and resume need no secret except that of Redis", async () => {
  expect(await here(["jobs", "pause", "1/1", "--reason", "a test"])).toMatchObject({ code: 0 });
  expect(await here(["jobs", "resume", "1/1"])).toMatchObject({ code: 0 });
});

test.each(sample(["rates list", "payments audit --network eip155:1 --from-block 1", "refunds check"]))(
  "postern %s needs the credentials only of the chains or rates that it reads",
  async (line) => {
    const { code, stderr } = await here(line.split(" "));
    const lines = stderr.trimEnd().split("\n");
    expect([code, lines]).toEqual([
      3,
      expect.arrayContaining([expect.stringMatching(/accepted_tokens\[1\]/)]),
    ]);
    for (const each of lines) expect(each).toMatch(/x402\.toml:\d+: accepted_tokens\[1\]/);
  },
);

test("postern endpoints open finds its endpoint without its secret, and reports an unknown one", async () => {
  const none = await here(["endpoints", "open", "/hooks/github"]);
  expect(none).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("does not send its secret in a handshake"),
  });
  const unknown = await here(["endpoints", "open", "/hooks/gihtub"]);
  expect(unknown.stderr).toBe("error: no endpoint has the path /hooks/gihtub; did you mean /hooks/github?\n");
});

test("postern config check names every missing secret, of any process", async () => {
  const { code, stderr } = await here(["config", "check"]);
  expect(code).toBe(3);
  expect(stderr.match(/POSTERN_NOT_SET_HERE, which is not set/g)).toHaveLength(10);
});

describe("a service", () => {
  const SECRETS: [service: string, problems: RegExp][] = [
    ["producer", /postern\.toml:\d+: runner\.secret: names .*\n.*runners\.reports\.secret: names .*$/],
    ["runner", /postern\.toml:\d+: runner\.secret: names .*\n.*runner\.redis\.url: names .*$/],
    [
      "webhooks",
      /^\S+webhooks\.toml:\d+: endpoint \/hooks\/github: secret: [^\n]*\n\S+webhooks\.toml:\d+: endpoint \/hooks\/asana: secret: [^\n]*$/,
    ],
    [
      "pricing",
      /^\S+pricing\.toml:\d+: key: names [^\n]*\n\S+job_pricing\.toml:\d+: 1\.1: must be an integer in wei[^\n]*$/,
    ],
  ];
  test.each(sample(SECRETS))("of the kind %s needs only its own secrets", async (service, problems) => {
    const { code, stdout } = await postern.run([service]);
    const failed = stdout.split("\n").find((line) => line.includes("service.failed")) ?? "{}";
    expect([code, JSON.parse(failed)]).toEqual([
      3,
      expect.objectContaining({ reason: expect.stringMatching(problems) }),
    ]);
  });
});

const VERBOSE = { POSTERN_LOG_LEVEL: "verbose" };
const LEVELS = 'POSTERN_LOG_LEVEL: must be one of "info", "warn", "error", "silent", not "verbose"';

test("a command with POSTERN_LOG_LEVEL=verbose exits with 3 and names the levels", async () => {
  for (const args of [["status"], ["config", "check"]])
    expect(await here(args, VERBOSE)).toMatchObject({ code: 3, stderr: expect.stringContaining(LEVELS) });
});

onlyInLongRun(() => {
  test("a service with POSTERN_LOG_LEVEL=verbose exits with 3 and names the levels", async () => {
    const { code, stdout } = await postern.run(["webhooks"], { env: VERBOSE });
    expect([code, stdout.replaceAll('\\"', '"')]).toEqual([3, expect.stringContaining(LEVELS)]);
  });
});

onlyInLongRun(() => {
  test("an unused variable causes a warning at the start of a service, but not in a command", async () => {
    const env = { POSTERN_LOGLEVEL: "warn" };
    const warning = "POSTERN_LOGLEVEL: this variable is not used; did you mean POSTERN_LOG_LEVEL?";
    expect((await here(["failed", "list"], env)).stderr).not.toContain("POSTERN_LOGLEVEL");
    expect((await postern.run(["producer"], { env })).stdout).toContain(`"warning":"${warning}"`);
  });
});

test("a variable that other configurations may use causes a warning in config check, but not in a command for operators", async () => {
  const env = { POSTERN_OF_ANOTHER_DIRECTORY: "x" };
  const warning = "warning: POSTERN_OF_ANOTHER_DIRECTORY: this variable is not used\n";
  expect((await here(["config", "check"], env)).stderr).toContain(warning);
  expect((await here(["failed", "list"], env)).stderr).not.toContain("POSTERN_OF_ANOTHER_DIRECTORY");
});
