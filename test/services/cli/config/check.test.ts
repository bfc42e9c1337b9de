import { describe, expect, test } from "vitest";
import { devToken } from "../../../../shared/dev/config.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { runHereWith } from "../run-here.ts";

const postern = usePostern();
const here = runHereWith(postern);
const checkConfig = () => here(["config", "check"]);

const webhooks = { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] };
const ADDRESS = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const x402 = {
  public_url: "https://jobs.example.com",
  facilitator_url: "http://127.0.0.1:1",
  quote_secret: "a quote secret for this test",
  accepted_tokens: [
    {
      ...{ network: "eip155:84532", asset: ADDRESS, pay_to: ADDRESS, symbol: "USDC", decimals: 6 },
      ...{ rate_per_native_unit: "3200", eip3009_name: "USDC", eip3009_version: "2" },
      rpc_url: "http://127.0.0.1:1",
    },
  ],
};

test("postern config check exits with 0 on a valid configuration even if its Redis is unavailable", async () => {
  postern.configure({ postern: { redis: { url: "redis://127.0.0.1:1" } }, webhooks });
  const { code, stdout } = await runHereWith(postern)(["config", "check"]);
  expect([code, stdout]).toEqual([0, expect.stringContaining("is valid; webhooks gateway: 1 endpoint")]);
  expect(stdout).toContain("payment gateway: off");
});

test("postern config check prints the number of jobs for sale, and the number of tokens", async () => {
  postern.configure({ webhooks, x402, job_pricing: { "1": { "7": "1000000000000000" } } });
  const { code, stdout } = await checkConfig();
  expect([code, stdout]).toEqual([0, expect.stringContaining("payment gateway: 1 priced job, 1 token")]);
});

test("postern config check names the runner, and the Redis of the reference runner only if it has its own", async () => {
  postern.configure({ postern: { runner: { url: "http://127.0.0.1:7000" } }, webhooks });
  expect((await checkConfig()).stdout).toContain("; runner: http://127.0.0.1:7000; console: ");
  postern.configure({ postern: { runner: { redis: { url: "redis://127.0.0.1:1" } } }, webhooks });
  expect((await checkConfig()).stdout).toContain(
    "; runner: http://127.0.0.1:8645 (postern runner uses the Redis of [runner.redis]); ",
  );
});

test("postern config check says who can use the console, and what is wrong with operator.toml", async () => {
  postern.configure({ webhooks });
  expect((await checkConfig()).stdout).toContain("console: no tokens, only for this machine\n");
  const tokens = [{ name: "vera", role: "viewer", token: "a-viewers-token-of-a-test" }];
  postern.configure({ webhooks, operator: { tokens } });
  expect((await checkConfig()).stdout).toContain("console: 1 token\n");
  postern.configure({ webhooks, operator: { bind_address: "0.0.0.0:9300" } });
  const { code, stderr } = await checkConfig();
  expect([code, stderr]).toEqual([
    3,
    expect.stringMatching(/operator\.toml:1: bind_address: .* no token is configured/),
  ]);
});

test("postern config check exits with 3 on a price of zero, and names its job", async () => {
  postern.configure({ webhooks, x402, job_pricing: { "1": { "7": "0" } } });
  const { code, stderr } = await checkConfig();
  expect([code, stderr]).toEqual([3, expect.stringContaining("job_pricing.toml:2: 1.7")]);
});

test("postern config check exits with 3 if a payment with the largest body does not fit into a partition", async () => {
  const large = { ...x402, body_limit_bytes: 10 * 2 ** 20 };
  const redis = { partitions: 16, deployment_id: "2026-11-07-shop" };
  postern.configure({ postern: { redis }, webhooks, x402: large });
  const { code, stderr } = await checkConfig();
  expect([code, stderr]).toEqual([
    3,
    expect.stringMatching(
      /postern\.toml: limits\.queue_bytes_max: must be at least \d+, .* one of 16 partitions/,
    ),
  ]);
  postern.configure({ postern: { redis: { ...redis, partitions: 4 } }, webhooks, x402: large });
  expect((await checkConfig()).stderr).not.toContain("queue_bytes_max");
});

test("postern config check exits with 3 on an invalid configuration, and lists every problem", async () => {
  postern.configure({
    postern: { redis: { url: "http://nowhere" } },
    webhooks: { endpoints: [{ path: "a", job_id: 1, auth: "bearer" }] },
  });
  const { code, stderr } = await checkConfig();
  expect(code).toBe(3);
  for (const problem of ["redis.url", 'endpoint "a": path', 'endpoint "a": secret'])
    expect(stderr).toContain(problem);
});

test.each(["postern", "x402", "job_pricing"])(
  "postern config check exits with 3 on an unknown key in %s.toml",
  async (file) => {
    postern.configure({ webhooks, [file]: { unknown: 1 } });
    expect((await checkConfig()).code).toBe(3);
  },
);

describe("with --online", () => {
  const devnet = useDevnet();
  const online = (changes: object = {}) => {
    const token = { ...devToken(devnet), ...changes };
    postern.configure({ webhooks, x402: { ...x402, accepted_tokens: [token] } });
    return here(["config", "check", "--online"]);
  };

  test("postern config check exits with 0 if contracts and nodes match the configuration, and warns about settings that cost requests", async () => {
    expect((await online()).code).toBe(0);
    await devnet.control.setNodeFaults({ finalized: false });
    const { code, stderr } = await online({ rpc_url: devnet.nodeUrl });
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining("warning: x402.toml: USDC on eip155:84532: its node"),
    ]);
  });

  onlyInLongRun(() => {
    test("postern config check exits with 3 if decimals differ from the contract's, and with 1 if a node does not answer", async () => {
      const wrong = await online({ decimals: 18 });
      expect([wrong.code, wrong.stderr]).toEqual([3, expect.stringContaining("its contract says 6")]);
      const away = await online({ rpc_url: "http://127.0.0.1:1" });
      expect([away.code, away.stderr]).toEqual([1, expect.stringContaining("the chain cannot be queried")]);
    });
  });
});
