import { encodeFunctionData, parseSignature } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { beforeEach, expect, test } from "vitest";
import type { DevAccount, Hex } from "../../../services/dev/chain/chain.ts";
import { exactPermit2ProxyAbi } from "../../../services/dev/chain/contracts/exact-permit2-proxy.ts";
import { usdtAbi } from "../../../services/dev/chain/contracts/usdt.ts";
import { type Chain, createChain } from "../../../shared/chain/chain.ts";
import { uintWord } from "../../../shared/chain/encoding.ts";
import { addressTopic } from "../../../shared/chain/logs.ts";
import type { TokenAuthorization } from "../../../shared/chain/payment-schemes.ts";
import { EXACT_PROXY, PERMIT2, permit2 } from "../../../shared/chain/permit2.ts";
import { createReads, createRpc, type Log, type Receipt } from "../../../shared/chain/rpc.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { newPayer } from "../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { type Permit2Choice, type SignedPermit2, signPermit2 } from "../../support/permit2.ts";
import { recordingLog } from "../../support/recording-log.ts";

const devnet = useDevnet({ fresh: "test" });
const ends = useEnds();
const VALUE = 3_200_000n;
/** Seconds after the end of a permit at which every node is assumed to have the logs. */
const LONG_AFTER = 301;

let chain: Chain;
let since: bigint;
let payer: DevAccount;
beforeEach(async () => {
  chain = chainAt(0);
  payer = await newPayer(devnet, 0n);
  await devnet.chain.mint(payer.address, 10n * VALUE, devnet.permit2Tokens.usdt);
  await devnet.chain.permit2.approve(payer, devnet.permit2Tokens.usdt);
  since = await devnet.chain.client.getBlockNumber();
});

function chainAt(confirmations: number): Chain {
  const { rpcUrl, chainId } = devnet;
  const given = { rpcUrl: new Secret(rpcUrl), chainId, confirmations, voidDepth: 512, timeoutMs: 5000 };
  const its = createChain({ recheckMs: 100, ...given, clock: Date.now, log: recordingLog() });
  ends.defer(() => its.close());
  return its;
}

/** Makes a permit from the payer to the seller, with the functions that read the chain's evidence about it. */
async function permit(choice: Partial<Permit2Choice> = {}) {
  const { chainId, permit2Tokens, seller: to } = devnet;
  const deadline = (await devnet.chain.now()) + 1000n;
  const signed = await signPermit2({
    ...{ payer, to, value: VALUE, token: permit2Tokens.usdt, chainId, deadline },
    ...choice,
  });
  return { signed, its: toTransfer(signed) };
}

function toTransfer({ permit2Authorization }: SignedPermit2): TokenAuthorization {
  const { from, permitted, nonce, deadline, witness } = permit2Authorization;
  return {
    ...{ method: "permit2", asset: permitted.token, from, to: witness.to, value: BigInt(permitted.amount) },
    ...{ validAfter: BigInt(witness.validAfter), validBefore: BigInt(deadline) },
    nonce: `0x${uintWord(BigInt(nonce))}`,
  };
}

/** Makes all earlier blocks final, long after the end of the permit. */
async function longAfter({ validBefore }: TokenAuthorization): Promise<void> {
  const now = await devnet.chain.now();
  await devnet.chain.increaseTime(Number(validBefore - now) + LONG_AFTER);
  await devnet.chain.finalize();
}

test("a permit counts as paid once a direct call of the proxy is deep enough, even if other data follows the permit", async () => {
  const { settle } = devnet.chain.permit2;
  for (const suffix of sample(["0x80218021802180218021802180218021", "0x"] as const)) {
    const { signed, its } = await permit();
    expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
    const transaction = await settle(signed, { suffix });
    const { blockNumber: block } = await devnet.chain.client.getTransactionReceipt({ hash: transaction });
    const paid = { kind: "paid", transaction, block, position: expect.any(Number) };
    expect(await chain.evidenceOf(its, { since })).toEqual(paid);
    expect(await chain.proofOf(transaction, its)).toMatchObject({ kind: "paid", block });
    expect(await chainAt(1000).evidenceOf(its, { since })).toEqual({
      kind: "open",
      seen: { transaction, block },
    });
  }
});

test("a permit also counts as paid by the call of the proxy that contains the payer's approval", async () => {
  const { token, chainId, chain: on, seller } = devnet;
  await on.mint(payer.address, VALUE);
  const { signed, its } = await permit({ token });
  const deadline = BigInt(signed.permit2Authorization.deadline);
  const approval = { owner: payer.address, spender: PERMIT2, value: VALUE, nonce: 0n, deadline } as const;
  const uint256 = ["value", "nonce", "deadline"].map((name) => ({ name, type: "uint256" }));
  const address = ["owner", "spender"].map((name) => ({ name, type: "address" }));
  const { r, s, v } = parseSignature(
    await privateKeyToAccount(payer.privateKey).signTypedData({
      domain: { name: "USDC", version: "2", chainId, verifyingContract: token },
      types: { Permit: [...address, ...uint256] },
      primaryType: "Permit",
      message: approval,
    }),
  );
  const { nonce, witness } = signed.permit2Authorization;
  const args = [
    { value: VALUE, deadline, r, s, v: Number(v) },
    { permitted: { token, amount: VALUE }, nonce: BigInt(nonce), deadline },
    payer.address,
    { to: seller, validAfter: BigInt(witness.validAfter) },
    signed.signature,
  ] as const;
  const data = encodeFunctionData({ abi: exactPermit2ProxyAbi, functionName: "settleWithPermit", args });
  const transaction = await on.send({ to: EXACT_PROXY, data });
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });
});

test("the position of a payment is that of its transfer in the receipt", async () => {
  const { signed, its } = await permit();
  const transaction = await devnet.chain.permit2.settle(signed);
  const proof = await chain.proofOf(transaction, its);
  const { logs } = await devnet.chain.client.getTransactionReceipt({ hash: transaction });
  const position = proof?.kind === "paid" ? proof.position : -1;
  expect(logs[position]?.address.toLowerCase()).toBe(its.asset.toLowerCase());
  expect(BigInt(logs[position]?.data ?? 0)).toBe(VALUE);
});

test("a call of the proxy proves no permit that differs from the permit in the call in any field", async () => {
  const { signed, its } = await permit();
  const transaction = await devnet.chain.permit2.settle(signed);
  const other = devnet.payers[0]?.address as Hex;
  const changes: Partial<TokenAuthorization>[] = [
    { asset: devnet.permit2Tokens.dai },
    { from: other },
    { to: other },
    { value: VALUE + 1n },
    { validAfter: 1n },
    { validBefore: its.validBefore + 1n },
    { nonce: `0x${uintWord(BigInt(its.nonce) ^ 1n)}` },
  ];
  for (const change of changes) {
    const proof = await chain.proofOf(transaction, { ...its, ...change });
    expect([change, proof?.kind]).not.toEqual([change, "paid"]);
  }
});

onlyInLongRun(() => {
  test("two permits of one payer for the same amount are each paid by their own transaction", async () => {
    const [one, two] = [await permit(), await permit()];
    const first = await devnet.chain.permit2.settle(two.signed);
    expect(await chain.evidenceOf(one.its, { since })).toEqual({ kind: "open" });
    const second = await devnet.chain.permit2.settle(one.signed);
    expect(await chain.evidenceOf(one.its, { since })).toMatchObject({ kind: "paid", transaction: second });
    expect(await chain.evidenceOf(two.its, { since })).toMatchObject({ kind: "paid", transaction: first });
    // The first payment does not prove an earlier claim: a transaction before the claim proves nothing.
    const { blockNumber } = await devnet.chain.client.getTransactionReceipt({ hash: first });
    expect(await chain.evidenceOf(two.its, { since: blockNumber + 1n })).toMatchObject({ kind: "open" });
  });
});

test("a permit that was never used is expired once a final block is past its deadline", async () => {
  const { its } = await permit();
  await devnet.chain.increaseTime(1001);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await devnet.chain.finalize();
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "unpaid", reason: "expired" });
});

test.each([
  ["was invalidated", (its: TokenAuthorization) => devnet.chain.permit2.invalidate(payer, BigInt(its.nonce))],
  [
    "was used for a permit to the payer",
    (its: TokenAuthorization) =>
      devnet.chain.permit2.spendOtherwise(payer, {
        token: its.asset,
        value: VALUE,
        nonce: BigInt(its.nonce),
      }),
  ],
])("a permit whose nonce %s is in review long after its end, and never paid or void", async (_how, spend) => {
  const { its } = await permit();
  await spend(its);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "open" });
  await longAfter(its);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({
    kind: "contradiction",
    reason: expect.stringContaining("the permit's nonce is used"),
  });
});

test("a permit that another contract sent to the proxy needs an operator's review, which shows its transfer", async () => {
  const { signed, its } = await permit();
  const transaction = await devnet.chain.permit2.settle(signed, { wrapped: true });
  expect(await chain.proofOf(transaction, its)).toMatchObject({
    kind: "wrapped",
    positions: [expect.any(Number)],
  });
  await longAfter(its);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "contradiction" });
});

onlyInLongRun(() => {
  test("a wrapped call may not have paid if the payer also invalidates the nonce, and invalidating another nonce changes nothing", async () => {
    const [{ signed, its }, later] = [await permit(), await permit()];
    const hash = await devnet.chain.permit2.settle(signed, { wrapped: true });
    const reads = createReads(createRpc({ url: new Secret(devnet.rpcUrl), timeoutMs: 5000 }));
    const receipt = (await reads.receipt(hash)) as Receipt;
    /** The proof of a receipt to which the log of an invalidated nonce of `owner` was added. */
    const proofBeside = async (owner: Hex, nonce: Hex) => {
      const transaction = await devnet.chain.permit2.invalidate(payer, BigInt(nonce));
      const log = (await reads.receipt(transaction))?.logs[0] as Log;
      const topics = [log.topics[0] as Hex, addressTopic(owner)];
      return permit2
        .ruleOf(its)
        .evidenceIn({ ...receipt, logs: [...receipt.logs, { ...log, topics }] }, reads.transaction);
    };
    expect(await proofBeside(payer.address, its.nonce)).toEqual({ kind: "none" });
    expect(await proofBeside(payer.address, later.its.nonce)).toMatchObject({ kind: "wrapped" });
    expect(await proofBeside(devnet.seller, its.nonce)).toMatchObject({ kind: "wrapped" });
  });
});

test("a payment in a token that keeps a part of each transfer was not made, and needs review", async () => {
  const args = [100n, 1_000_000n] as const;
  const data = encodeFunctionData({ abi: usdtAbi, functionName: "setParams", args });
  await devnet.chain.send({ to: devnet.permit2Tokens.usdt, data });
  const { signed, its } = await permit();
  const transaction = await devnet.chain.permit2.settle(signed);
  expect(await chain.proofOf(transaction, its)).toMatchObject({ kind: "short", value: (VALUE * 99n) / 100n });
});

onlyInLongRun(() => {
  test("every transfer to the seller is listed with its permit, if the transaction shows one", async () => {
    const [direct, wrapped] = [await permit(), await permit()];
    const fromBlock = since + 1n;
    const first = await devnet.chain.permit2.settle(direct.signed, { suffix: "0x1234" });
    const second = await devnet.chain.permit2.settle(wrapped.signed, { wrapped: true });
    const toBlock = await devnet.chain.client.getBlockNumber();
    const kind = { asset: devnet.permit2Tokens.usdt, method: "permit2", eventOrder: undefined } as const;
    const range = { ...kind, payTo: devnet.seller, fromBlock, toBlock };
    const transfers = [];
    for await (const transfer of chain.transfersTo(range)) transfers.push(transfer);
    const authorizer = payer.address.toLowerCase();
    expect(transfers).toMatchObject([
      { transaction: first, value: VALUE, authorization: { authorizer, nonce: direct.its.nonce } },
      { transaction: second, value: VALUE },
    ]);
    expect(transfers[1]).not.toHaveProperty("authorization");
  });
});

test("the state of an authorization has the balance, the allowance of Permit2 and the bit of the nonce", async () => {
  const { signed, its } = await permit();
  const state = await chain.stateOf(its);
  expect(state).toMatchObject({ isSpent: false, balance: 10n * VALUE, allowance: 2n ** 256n - 1n });
  const poor = await newPayer(devnet, 0n);
  expect(await chain.stateOf({ ...its, from: poor.address })).toMatchObject({ balance: 0n, allowance: 0n });
  await devnet.chain.permit2.settle(signed);
  expect(await chain.stateOf(its)).toMatchObject({ isSpent: true });
});

test("a token with Permit2 passes its check if its chain has Permit2 and the proxy", async () => {
  const { usdt, dai } = devnet.permit2Tokens;
  const token = (asset: Hex, decimals: number) => ({ transfer_method: "permit2", asset, decimals }) as const;
  expect(await chain.check(token(usdt, 6))).toEqual({ problems: [], warnings: [] });
  expect(await chain.check(token(dai, 18))).toEqual({ problems: [], warnings: [] });
  expect((await chain.check(token(dai, 6))).problems).toEqual([expect.stringContaining("decimals = 6")]);
});

onlyInLongRun(() => {
  test("a token passes as one of EIP-2612 if its domain, nonces and permit type match the standard", async () => {
    const { usdt, dai } = devnet.permit2Tokens;
    const problemsOf = async (asset: Hex, decimals: number, name: string, version: string) => {
      const domain = { eip2612_domain: { name, version } };
      return (await chain.check({ transfer_method: "permit2", asset, decimals, ...domain })).problems;
    };
    expect(await problemsOf(devnet.token, 6, "USDC", "2")).toEqual([]);
    expect(await problemsOf(devnet.token, 6, "USDC", "1")).toEqual([
      expect.stringContaining('eip2612_domain = { name = "USDC", version = "1" } is not the EIP-712 domain'),
    ]);
    expect(await problemsOf(dai, 18, "Dai Stablecoin", "1")).toEqual([
      "its permit is not that of EIP-2612: remove eip2612_domain",
    ]);
    expect(await problemsOf(usdt, 6, "Tether USD", "1")).toEqual([
      expect.stringContaining("neither DOMAIN_SEPARATOR() nor eip712Domain()"),
      expect.stringContaining("nonces(address)"),
    ]);
  });
});
