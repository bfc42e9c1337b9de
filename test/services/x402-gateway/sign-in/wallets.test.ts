import type { TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useX402, x402Table } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { signInAs } from "../../../support/sign-in.ts";
import type { Payer } from "../../../support/sign-payment.ts";
import {
  asErc6492,
  NOT_SIGNED,
  newWallet,
  setAnswers,
  setOwner,
  wrapAsFirstOwner,
} from "../../../support/wallets.ts";
import { countingNode } from "../counting-node.ts";
import { type Bought, buyCall } from "./bought.ts";
import { type SignInServer, useSignInServers } from "./sign-in-server.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const { devnet } = fixture;
const ends = useEnds();
const servers = useSignInServers();
const NOT_TAKEN = [402, "the payer's wallet does not accept the signature"];

const startServer = (more = {}) => servers({ devnet, redisUrl: fixture.redis.url, ...more });
const detailIn = (answer: Answer) => [answer.status, answer.json()["detail"]];

async function requestAs(
  server: SignInServer,
  { id }: Bought,
  payer: Payer,
  clientKey = "192.0.2.1",
): Promise<Answer> {
  return server.request(id, {
    ...(await signInAs(await server.askedFor(id), { payer })),
    "X-Client-Key": clientKey,
  });
}

const WALLETS = [
  ["deployed", { deployed: true }],
  ["deployed by its payment", { deployed: false }],
  ["deployed, and whose signature is its owner's", { deployed: true, form: "bare" }],
] as const;
test.each(sample(WALLETS))(
  "a wallet that is %s signs in to the call that it has paid for",
  async (_what, choice) => {
    const wallet = await newWallet(devnet, choice);
    const bought = await buyCall(fixture, wallet);
    expect((await requestAs(await startServer(), bought, wallet)).status).toBe(200);
  },
);

onlyInLongRun(() => {
  test("a wallet signs in even if its client still sends the data that deploys it", async () => {
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const wrap = async (signature: `0x${string}`) =>
      asErc6492(wallet.deployment, wrapAsFirstOwner(signature));
    expect((await requestAs(await startServer(), bought, { ...wallet, wrap })).status).toBe(200);
  });
});

test.each(sample(NOT_SIGNED))("a wallet that answers %s has not signed in", async (answers) => {
  const wallet = await newWallet(devnet);
  const bought = await buyCall(fixture, wallet);
  await setAnswers(devnet, wallet, answers);
  expect(detailIn(await requestAs(await startServer(), bought, wallet))).toEqual(NOT_TAKEN);
});

onlyInLongRun(() => {
  test("neither a stranger's key nor the key of a former owner signs in for a wallet", async () => {
    const server = await startServer();
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const { privateKey, address } = await newPayer(devnet, 0n);
    expect(detailIn(await requestAs(server, bought, { ...wallet, privateKey }))).toEqual(NOT_TAKEN);
    await setOwner(devnet, wallet, address);
    expect(detailIn(await requestAs(server, bought, wallet))).toEqual(NOT_TAKEN);
    expect((await requestAs(server, bought, { ...wallet, privateKey })).status).toBe(200);
  });

  test("a wallet's sign-in that is sent many times succeeds once, and its node is called once", async () => {
    const now = Date.now();
    const node = await countingNode(devnet.rpcUrl);
    ends.defer(node.close);
    const server = await startServer({ token: { rpc_url: node.url }, clock: () => now });
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const header = await signInAs(await server.askedFor(bought.id), { payer: wallet });
    const answers = await Promise.all(Array.from({ length: 5 }, () => server.request(bought.id, header)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 402, 402, 402, 402]);
    expect((await server.request(bought.id, header)).status).toBe(402);
    expect(node.calls()).toBe(1);
  });
});

test("no node is called for a payer with a key, or for an address that has not paid", async () => {
  const node = await countingNode(devnet.rpcUrl);
  ends.defer(node.close);
  const server = await startServer({ token: { rpc_url: node.url } });
  const [bought, other] = [await buyCall(fixture), await newWallet(devnet)];
  const forged = { ...fixture.payer, privateKey: other.privateKey };
  expect(detailIn(await requestAs(server, bought, forged))).toEqual([
    402,
    "signature: must be by the payer's key",
  ]);
  expect(detailIn(await requestAs(server, bought, other))).toEqual([
    402,
    "address: must be that of the call's payer",
  ]);
  expect(node.calls()).toBe(0);
});

onlyInLongRun(() => {
  test("an address that sends bad sign-ins for a wallet is refused for a while, and the owner still signs in from another address", async () => {
    const server = await startServer({ x402: { unpaid_verifies_per_address: 3 } });
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const { privateKey } = await newPayer(devnet, 0n);
    const statuses = [];
    for (let i = 0; i < 5; i++)
      statuses.push((await requestAs(server, bought, { ...wallet, privateKey })).status);
    expect(statuses).toEqual([402, 402, 402, 429, 429]);
    for (let i = 0; i < 5; i++)
      expect((await requestAs(server, bought, wallet, "192.0.2.2")).status).toBe(200);
  });

  test("while the node is unreachable a wallet's sign-in is refused with a retry time, and the same sign-in is accepted afterwards", async () => {
    const node = await countingNode(devnet.rpcUrl);
    ends.defer(node.close);
    const server = await startServer({ token: { rpc_url: node.url } });
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const header = await signInAs(await server.askedFor(bought.id), { payer: wallet });
    node.isAway = true;
    const away = await server.request(bought.id, header);
    expect([away.status, away.json()["code"], away.headers["retry-after"]]).toEqual([
      503,
      "result.sign_in_unavailable",
      "5",
    ]);
    node.isAway = false;
    expect((await server.request(bought.id, header)).status).toBe(200);
  });

  test("a wallet cannot sign in if no node of its chain is configured", async () => {
    const wallet = await newWallet(devnet);
    const bought = await buyCall(fixture, wallet);
    const server = await startServer({ x402: { trust_facilitator: true }, token: { rpc_url: undefined } });
    expect(detailIn(await requestAs(server, bought, wallet))).toEqual([
      402,
      "no node of the payer's chain can check a wallet's signature",
    ]);
  });
});

test("a wallet's contract is called on the chain of its payment, even if its client names another chain", async () => {
  const wallet = await newWallet(devnet);
  const bought = await buyCall(fixture, wallet);
  const node = await countingNode(devnet.rpcUrl);
  ends.defer(node.close);
  const other = { network: "eip155:8453", asset: `0x${"7".repeat(40)}`, rpc_url: node.url };
  const own = x402Table({ devnet })["accepted_tokens"] as TomlTable[];
  const server = await startServer({ x402: { accepted_tokens: [{ ...own[0], ...other }, ...own] } });
  const asked = await server.askedFor(bought.id);
  expect(asked.supportedChains.map(({ chainId }) => chainId)).toEqual(["eip155:8453", devnet.network]);
  expect((await server.request(bought.id, await signInAs(asked, { payer: wallet }))).status).toBe(200);
  expect(node.calls()).toBe(0);
});
