import type { TomlTable } from "smol-toml";
import { beforeEach, expect, test } from "vitest";
import type { DevAccount } from "../../services/dev/chain/chain.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { usePostern } from "../fixtures/postern.ts";
import { asUser, useRedis } from "../fixtures/redis.ts";
import { JOB_PATH, requiredIn, signOffer, signOfferV1, x402Table } from "../fixtures/x402.ts";
import { twoTokens } from "../services/x402-gateway/two-tokens.ts";
import { codeOf } from "../support/books.ts";
import { newPayer } from "../support/devnet.ts";
import { send } from "../support/http.ts";
import { onlyInLongRun, sample } from "../support/long-run.ts";

const redis = useRedis();
const devnet = useDevnet();
const postern = usePostern();
const OTHER_ADDRESS = `0x${"77".repeat(20)}`;

const tablesOf = (prices: Record<string, string>, x402: TomlTable = {}, token: TomlTable = {}) => ({
  postern: { drain_secs: 0, redis: { url: asUser(redis.url, "x402") } },
  x402: x402Table({ devnet, x402, token }),
  job_pricing: { "1": prices },
});
const OLD = { "7": "1000000000000000" };
const NEW = { "7": "2000000000000000" };

let payer: DevAccount;
let gateway: PosternProcess;
let address: string;
beforeEach(async () => {
  payer = await newPayer(devnet);
  postern.configure(tablesOf(OLD));
  gateway = postern.start(["x402", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"]);
  address = String((await gateway.waitForEvent("service.started"))["address"]);
  await eventually("the job is sold", async () => (await ask()).status === 402);
});

const ask = () => send(address, { path: JOB_PATH, body: "hello" });
const buy = (headers: Record<string, string>) => send(address, { path: JOB_PATH, headers, body: "hello" });
const charged = () => devnet.chain.chargesOf(payer.address);

async function reload(tables: ReturnType<typeof tablesOf>): Promise<void> {
  const before = gateway.events("config.reloaded").length;
  writeConfig(postern.configDir, tables);
  process.kill(gateway.pid, "SIGHUP");
  await eventually("it is reloaded", () => gateway.events("config.reloaded").length > before);
}

const WAYS = { "version 2": signOffer, "version 1": signOfferV1 };

test.each(sample(Object.entries(WAYS)))(
  "an offer of %s keeps its price after reloads have changed the price",
  async (_name, sign) => {
    const payment = await sign(await ask(), { payer });
    await reload(tablesOf(NEW));
    await reload(tablesOf({ "7": "3000000000000000" }));
    expect((await buy(payment)).status).toBe(202);
    expect(await charged()).toHaveLength(1);
    const [offer] = requiredIn(await ask()).accepts;
    expect(offer?.amount).toBe("9600000");
  },
);

onlyInLongRun(() => {
  test("an offer in a token that a reload has removed can still be paid, and no new one is made", async () => {
    const payment = await signOffer(await ask(), { payer });
    const { accepted_tokens, ...rest } = twoTokens(devnet);
    await reload(tablesOf(OLD, { ...rest, accepted_tokens: accepted_tokens.slice(1) }));
    expect((await buy(payment)).status).toBe(202);
    expect(requiredIn(await ask()).accepts.map(({ asset }) => asset)).not.toContain(devnet.token);
  });

  test("an offer is refused once its address was removed, or its job is no longer sold", async () => {
    const [first, second] = [await ask(), await ask()];
    await reload(tablesOf(OLD, {}, { pay_to: OTHER_ADDRESS }));
    const elsewhere = await buy(await signOffer(first, { payer }));
    expect([elsewhere.status, codeOf(elsewhere)]).toEqual([402, "payment.not_offered"]);
    await reload(tablesOf({ "8": "1000000000000000" }));
    expect((await buy(await signOffer(second, { payer }))).status).toBe(404);
    await reload(tablesOf(OLD, { default_invocation_mode: "disabled" }));
    expect((await buy(await signOffer(second, { payer }))).status).toBe(403);
    expect(await charged()).toEqual([]);
  });
});
