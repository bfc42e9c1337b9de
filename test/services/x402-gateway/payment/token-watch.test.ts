import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { createTokenWatch } from "../../../../services/x402-gateway/payment/token-watch.ts";
import { createChain } from "../../../../shared/chain/chain.ts";
import { acceptedToken } from "../../../../shared/config/x402-toml.ts";
import { devToken } from "../../../../shared/dev/config.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import { codeOf } from "../../../support/books.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const ends = useEnds();

/** Starts a node that accepts connections and never answers. Returns its URL. */
async function silentNode(): Promise<string> {
  const silent = createServer(() => {});
  await once(silent.listen(0, "127.0.0.1"), "listening");
  ends.defer(() => silent.close());
  return `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
}

/** Creates what a watch of the devnet's token at this node needs. */
function watched(rpcUrl: string) {
  const token = acceptedToken({ env: {} }).parse(devToken(fixture.devnet));
  const log = recordingLog();
  const chain = createChain({
    rpcUrl: new Secret(rpcUrl),
    ...{
      chainId: fixture.devnet.chainId,
      confirmations: 1,
      voidDepth: 512,
      timeoutMs: 5000,
      recheckMs: 100,
    },
    ...{ clock: systemClock, log },
  });
  return { token, chain, log };
}

const ELSEWHERE = `0x${"22".repeat(20)}`;

const WRONG: readonly [TomlTable, string][] = [
  [{ decimals: 18 }, "decimals = 18, but its contract says 6"],
  [{ network: "eip155:31337" }, "serves chain 84532, not 31337"],
  [{ eip3009_name: "USD Coin" }, 'eip3009_name = "USD Coin"'],
  [{ eip3009_version: "1" }, 'eip3009_version = "1"'],
  [{ asset: ELSEWHERE }, `there is no contract at ${ELSEWHERE}`],
];
test.each(sample(WRONG))(
  "a gateway whose token is configured with %o does not start, and sells nothing",
  async (token, problem) => {
    const x402 = await fixture.gateway({ token, early: true });
    await expect(x402.gateway.firstCheck).rejects.toMatchObject({
      code: "start.config_invalid",
      message: expect.stringContaining(problem),
    });
    await eventually("Redis is ready", () => x402.gateway.readiness().checks["redis"] === "always");
    expect(x402.gateway.readiness()).toMatchObject({ ready: false, checks: { starting: true } });
    expect(codeOf(await x402.post())).toBe("price.unavailable");
  },
);

onlyInLongRun(() => {
  test("a gateway is not ready and not healthy before the check of its tokens, and becomes ready once a silent node has timed out", async () => {
    const x402 = await fixture.gateway({
      token: { rpc_url: await silentNode() },
      early: true,
      nodeTimeoutMs: 5000, // longer than Redis takes to be ready on a busy machine
    });
    await eventually("Redis is ready", () => x402.gateway.readiness().checks["redis"] === "always");
    expect(x402.gateway.readiness()).toMatchObject({ ready: false, checks: { starting: true } });
    expect((await send(x402.address, { method: "GET", path: "/x402/health" })).status).toBe(503);
    await x402.gateway.firstCheck;
    expect(x402.gateway.readiness()).toMatchObject({ ready: true, checks: { starting: false } });
  });
});

test("a start does not wait for a first check that takes too long", async () => {
  const { token, chain, log } = watched(await silentNode());
  const watch = createTokenWatch(token, chain, log, { everyMs: 10, soonMs: 10, firstMs: 10 });
  ends.defer(() => watch.close());
  await watch.start();
  expect(log.events, "the check goes on").toEqual([]);
});

onlyInLongRun(() => {
  test("a gateway whose node answers no eth_call at the hash of a block does not start", async () => {
    await fixture.devnet.control.setNodeFaults({ hashes: false });
    const { gateway } = await fixture.gateway({ token: { rpc_url: fixture.devnet.nodeUrl }, early: true });
    await expect(gateway.firstCheck).rejects.toThrow("EIP-1898");
  });
});

test("an unreachable node does not stop a start, but its token is not accepted before it was checked", async () => {
  const { control, nodeUrl } = fixture.devnet;
  const before = await fixture.gateway();
  const headers = await before.pay({ payer: fixture.payer });
  await control.setNodeFaults({ rateLimit: "status" });
  const token = { rpc_url: nodeUrl, decimals: 6 };
  const x402 = await fixture.gateway({ token, early: true });
  await x402.gateway.firstCheck;
  expect(x402.log.text()).toContain("token.unchecked");
  await eventually("it takes calls", () => x402.gateway.readiness().ready);
  expect(codeOf(await x402.post(headers))).toBe("payment.unavailable");
  await control.makeOdd({ decimals: 18 });
  await control.setNodeFaults({});
  expect(codeOf(await x402.post(headers))).toBe("payment.unavailable");
  expect(x402.log.text()).toContain("its contract says 18");
  expect(codeOf(await x402.post())).toBe("price.unavailable");
  expect((await fixture.asked()).settle).toBe(0);
});

test("a change of a token's contract and its correction are noticed while the gateway runs", async () => {
  const { devnet } = fixture;
  const { token, chain, log } = watched(devnet.rpcUrl);
  const watch = createTokenWatch(token, chain, log, { everyMs: 10, soonMs: 10, firstMs: 60_000 });
  ends.defer(() => watch.close());
  await watch.start();
  await watch.assertValid();
  await devnet.control.makeOdd({ version: "3" });
  await eventually("it is found out", () => watch.problems().length > 0);
  expect(String(watch.problems())).toContain("EIP-712 domain");
  await expect(watch.assertValid()).rejects.toMatchObject({ code: "payment.unavailable" });
  await devnet.control.makeOdd({});
  await eventually("it is well", () => watch.problems().length === 0);
  await watch.assertValid();
  const events = log.events.map(({ event }) => event);
  expect(events).toEqual(["token.invalid", "token.valid"]);
});

const NODE_FAULTS = [
  [{ finalized: false }, 'does not know the tag \\"finalized\\"'],
  [{ logRange: 10 }, "no logs of 1000 blocks at once"],
] as const;
onlyInLongRun(() => {
  test.each(NODE_FAULTS)(
    "a node with %o causes a warning, and its token is still offered",
    async (faults, warning) => {
      await fixture.devnet.chain.mine(40);
      await fixture.devnet.control.setNodeFaults(faults);
      const x402 = await fixture.gateway({ token: { rpc_url: fixture.devnet.nodeUrl }, early: true });
      await x402.gateway.firstCheck;
      expect(x402.log.text()).toContain(warning);
      expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(202);
    },
  );
});
