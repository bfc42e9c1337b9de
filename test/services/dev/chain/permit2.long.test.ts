import {
  type ContractFunctionArgs,
  concat,
  decodeErrorResult,
  decodeFunctionData,
  encodeFunctionData,
  hashDomain,
  hexToBytes,
  isAddressEqual,
  numberToHex,
  pad,
  parseEventLogs,
  parseSignature,
  serializeCompactSignature,
  signatureToCompactSignature,
  zeroAddress,
} from "viem";
import { privateKeyToAddress } from "viem/accounts";
import { beforeAll, describe, expect, test } from "vitest";
import { ADDRESSES, type DevAccount, type Hex } from "../../../../services/dev/chain/chain.ts";
import { exactPermit2ProxyAbi } from "../../../../services/dev/chain/contracts/exact-permit2-proxy.ts";
import { permit2Abi } from "../../../../services/dev/chain/contracts/permit2.ts";
import { type Call, newPayer } from "../../../support/devnet.ts";
import {
  type Permit2Choice,
  randomPermit2Nonce,
  type SignedPermit2,
  settleCall,
  signPermit2,
} from "../../../support/permit2.ts";
import { refusalOf } from "../../../support/refusal.ts";
import { inTenMinutes, type Payer, randomNonce, signTyped } from "../../../support/sign-payment.ts";
import { newWallet, setAnswers } from "../../../support/wallets.ts";
import { useFacilitator } from "./use-facilitator.ts";

const { devnet } = useFacilitator();

/** EIP-2612. */
const PERMIT_FIELDS = [
  { name: "owner", type: "address" },
  { name: "spender", type: "address" },
  { name: "value", type: "uint256" },
  { name: "nonce", type: "uint256" },
  { name: "deadline", type: "uint256" },
];

const ABI = [...permit2Abi, ...exactPermit2ProxyAbi];
const refusal = (call: Call) => refusalOf(devnet.chain, call, ABI);

test.each([
  ["usdt", "key", newPayer],
  ["usdt", "wallet", newWallet],
  ["dai", "key", newPayer],
  ["dai", "wallet", newWallet],
] as const)(
  "anyone can settle a Permit2 payment of %s by a %s, but only once",
  async (symbol, _kind, make) => {
    const { chain, permit2Tokens } = devnet;
    const token = permit2Tokens[symbol];
    const payer = await make(devnet);
    await chain.mint(payer.address, 1000n, token);
    await chain.permit2.approve(payer, token);
    const signed = await sign(payer, { token });
    const nonce = BigInt(signed.permit2Authorization.nonce);
    expect(await chain.permit2.isUsed(payer.address, nonce)).toBe(false);
    const transaction = await chain.permit2.settle(signed);
    expect(await chain.chargesOf(payer.address, token)).toMatchObject([{ value: 7n, transaction }]);
    expect(await chain.permit2.isUsed(payer.address, nonce)).toBe(true);
    expect(await refusal(settleCall(signed))).toEqual({ name: "InvalidNonce", args: [] });
  },
);

test("Permit2's EIP-712 domain has a name and no version, and the proxy's witness has a recipient and a time", async () => {
  const { client } = devnet.chain;
  const fields = { name: "string", chainId: "uint256", verifyingContract: "address" } as const;
  const EIP712Domain = Object.entries(fields).map(([name, type]) => ({ name, type }));
  const domain = { name: "Permit2", chainId: BigInt(devnet.chainId), verifyingContract: ADDRESSES.permit2 };
  const permit2 = { address: ADDRESSES.permit2, abi: permit2Abi } as const;
  expect(await client.readContract({ ...permit2, functionName: "DOMAIN_SEPARATOR" })).toBe(
    hashDomain({ domain, types: { EIP712Domain } }),
  );
  const proxy = { address: ADDRESSES.exactPermit2Proxy, abi: exactPermit2ProxyAbi } as const;
  expect(await client.readContract({ ...proxy, functionName: "PERMIT2" })).toBe(ADDRESSES.permit2);
  expect(await client.readContract({ ...proxy, functionName: "WITNESS_TYPE_STRING" })).toBe(
    "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)",
  );
});

/** Signs for a payer who holds USDT and has let Permit2 move it. */
function sign(payer: Payer, choice: Partial<Permit2Choice> = {}): Promise<SignedPermit2> {
  const { chainId, seller: to, permit2Tokens } = devnet;
  return signPermit2({ payer, to, value: 7n, token: permit2Tokens.usdt, chainId, ...choice });
}

async function readyPayer<Kind extends Payer>(payer: Kind): Promise<Kind> {
  const { chain, permit2Tokens } = devnet;
  await chain.mint(payer.address, 1000n, permit2Tokens.usdt);
  await chain.permit2.approve(payer, permit2Tokens.usdt);
  return payer;
}

const held = (payer: Payer) => devnet.chain.balanceOf(payer.address, devnet.permit2Tokens.usdt);

describe("a payer's key", () => {
  let payer: DevAccount;
  beforeAll(async () => {
    payer = await readyPayer(await newPayer(devnet, 0n));
  });

  test.each<[string, string, (signed: SignedPermit2) => object, Partial<Permit2Choice>?]>([
    ["with another recipient", "InvalidSigner", () => ({ witness: { to: devnet.token, validAfter: "0" } })],
    ["with another time", "InvalidSigner", () => ({ witness: { to: devnet.seller, validAfter: "1" } })],
    [
      "with another amount",
      "InvalidSigner",
      ({ permit2Authorization: { permitted } }) => ({ permitted: { ...permitted, amount: "8" } }),
    ],
    ["with another nonce", "InvalidSigner", () => ({ nonce: "1" })],
    ["of another payer", "InvalidSigner", () => ({ from: devnet.payers[0]?.address })],
    ["of the zero address", "InvalidOwner", () => ({ from: zeroAddress })],
    ["for another spender", "InvalidSigner", () => ({}), { spender: ADDRESSES.multicall3 }],
    ["of another chain", "InvalidSigner", () => ({}), { chainId: 1 }],
    ["to the zero address", "InvalidDestination", () => ({}), { to: zeroAddress }],
    ["of nothing", "InvalidAmount", () => ({}), { value: 0n }],
    ["before its time", "PaymentTooEarly", () => ({}), { validAfter: 4_000_000_000n }],
    ["after its deadline", "SignatureExpired", () => ({}), { deadline: 1000n }],
    ["of more than the payer has", "Error", () => ({}), { value: 1001n }],
  ])("does not pay %s, which Permit2 or its proxy answers with %s", async (_what, name, change, choice) => {
    const signed = await sign(payer, choice);
    const permit2Authorization = { ...signed.permit2Authorization, ...change(signed) };
    const call = settleCall({ ...signed, permit2Authorization });
    const args = { SignatureExpired: [1000n], Error: ["TRANSFER_FROM_FAILED"] }[name] ?? [];
    expect(await refusal(call)).toEqual({ name, args });
  });

  test("cannot be replaced by another key", async () => {
    const { privateKey } = await newPayer(devnet, 0n);
    const foreign = await sign({ ...payer, privateKey });
    expect(await refusal(settleCall(foreign))).toEqual({ name: "InvalidSigner", args: [] });
  });

  test("pays in the second of its deadline, and in that of its start", async () => {
    const { chain } = devnet;
    const second = (await chain.now()) + 100n;
    const signed = await sign(payer, { validAfter: second, deadline: second });
    await chain.setNextBlockTimestamp(second);
    await chain.permit2.settle(signed);
    const late = (await chain.now()) + 100n;
    const tooLate = await sign(payer, { deadline: late });
    await chain.setNextBlockTimestamp(late + 1n);
    await expect(chain.permit2.settle(tooLate)).rejects.toThrow("reverted");
  });

  test.each<[string, string, (signature: Hex) => Hex]>([
    [
      "of 64 bytes as in EIP-2098",
      "no error",
      (signature) => serializeCompactSignature(signatureToCompactSignature(parseSignature(signature))),
    ],
    ["of 66 bytes", "InvalidSignatureLength", (signature) => `${signature}00`],
    ["without a byte", "InvalidSignatureLength", () => "0x"],
    ["with a v of 29", "InvalidSignature", (signature) => `${signature.slice(0, -2)}1d` as Hex],
  ])("has a signature %s answered with %s", async (_what, name, change) => {
    const signed = await sign(payer);
    const said = await refusal(settleCall({ ...signed, signature: change(signed.signature) }));
    expect(said?.name ?? "no error").toBe(name);
  });

  test("pays in a call with a suffix, and in one that another contract makes", async () => {
    const { permit2 } = devnet.chain;
    const before = await held(payer);
    await permit2.settle(await sign(payer), { suffix: "0x1234" });
    await permit2.settle(await sign(payer), { wrapped: true });
    await permit2.settle(await sign(payer), { suffix: `0x${"ab".repeat(100)}`, wrapped: true });
    expect(await held(payer)).toBe(before - 21n);
  });

  test("invalidates its nonces one by one, with an event", async () => {
    const { chain } = devnet;
    const nonce = randomPermit2Nonce() | 1n;
    const hash = await chain.permit2.invalidate(payer, nonce);
    expect(await refusal(settleCall(await sign(payer, { nonce })))).toEqual({
      name: "InvalidNonce",
      args: [],
    });
    expect(await refusal(settleCall(await sign(payer, { nonce: nonce - 1n })))).toBeUndefined();
    const { blockNumber } = await chain.client.getTransactionReceipt({ hash });
    const events = await chain.client.getContractEvents({
      ...{ address: ADDRESSES.permit2, abi: permit2Abi, eventName: "UnorderedNonceInvalidation" },
      ...{ fromBlock: blockNumber, toBlock: blockNumber },
    });
    const args = { owner: payer.address, word: nonce >> 8n, mask: 1n << (nonce & 0xffn) };
    expect(events).toMatchObject([{ args }]);
  });

  test("uses a nonce through another spender, and the payment with the same nonce is refused", async () => {
    const { chain, permit2Tokens } = devnet;
    const signed = await sign(payer);
    const nonce = BigInt(signed.permit2Authorization.nonce);
    const before = await held(payer);
    await chain.permit2.spendOtherwise(payer, { token: permit2Tokens.usdt, value: 7n, nonce });
    expect(await held(payer)).toBe(before);
    expect(await refusal(settleCall(signed))).toEqual({ name: "InvalidNonce", args: [] });
  });

  test("gives a spender at most the signed amount, and less if the spender asks for less", async () => {
    const { permit2Authorization, signature } = await sign(payer);
    const { permitted, nonce, deadline } = permit2Authorization;
    const ask = (requestedAmount: bigint): Call => {
      const amounts = { nonce: BigInt(nonce), deadline: BigInt(deadline) };
      const permit = { permitted: { token: permitted.token, amount: 7n }, ...amounts };
      const args = [permit, { to: devnet.seller, requestedAmount }, payer.address, signature] as const;
      const data = encodeFunctionData({ abi: permit2Abi, functionName: "permitTransferFrom", args });
      return { to: ADDRESSES.permit2, data };
    };
    expect(await refusal(ask(8n))).toEqual({ name: "InvalidAmount", args: [7n] });
    expect(await refusal(ask(6n))).toEqual({ name: "InvalidSigner", args: [] });
  });

  test("no longer counts once its address has code that says no", async () => {
    const { client, snapshot, revert } = devnet.chain;
    const before = await snapshot();
    const signed = await sign(payer);
    const wallet = await newWallet(devnet, { tokens: 0n });
    const bytecode = await client.getCode({ address: wallet.address });
    expect(await refusal(settleCall(signed))).toBeUndefined();
    await client.setCode({ address: payer.address, bytecode: bytecode ?? "0x" });
    expect(await refusal(settleCall(signed))).toEqual({ name: "InvalidContractSignature", args: [] });
    await revert(before);
  });
});

test("Permit2 moves nothing without the payer's allowance", async () => {
  const payer = await newPayer(devnet, 0n);
  await devnet.chain.mint(payer.address, 1000n, devnet.permit2Tokens.usdt);
  const call = settleCall(await sign(payer));
  expect(await refusal(call)).toEqual({ name: "Error", args: ["TRANSFER_FROM_FAILED"] });
  await devnet.chain.permit2.approve(payer, devnet.permit2Tokens.usdt);
  expect(await refusal(call)).toBeUndefined();
});

test.each([
  ["Truly", undefined],
  ["TrulyIfWrapped", undefined],
  ["Always", undefined],
  ["LongYes", undefined],
  ["Never", { name: "InvalidContractSignature", args: [] }],
  ["Nonsense", { name: "", args: [] }],
  ["DirtyYes", { name: "", args: [] }],
  ["ShortYes", { name: "", args: [] }],
  ["Nothing", { name: "", args: [] }],
  ["Reverts", { name: "Error", args: ["Wallet: cannot tell"] }],
] as const)("Permit2 follows the answer of a wallet that answers %s", async (answers, said) => {
  const wallet = await readyPayer(await newWallet(devnet, { tokens: 0n }));
  await setAnswers(devnet, wallet, answers);
  expect(await refusal(settleCall(await sign(wallet)))).toEqual(said);
});

test("Permit2 refuses a plain signature of the owner of a wallet that needs it wrapped", async () => {
  const wallet = await readyPayer(await newWallet(devnet, { form: "bare", tokens: 0n }));
  const call = settleCall(await sign(wallet));
  expect(await refusal(call)).toBeUndefined();
  await setAnswers(devnet, wallet, "TrulyIfWrapped");
  expect(await refusal(call)).toEqual({ name: "InvalidContractSignature", args: [] });
});

/** Returns the code of a token that makes this call on any request, and logs its answer. */
function callingBack({ to, data }: Call): Hex {
  const calldata = hexToBytes(data);
  const bytes = numberToHex(calldata.length, { size: 2 });
  const program: Hex[] = [
    ...(["0x61", bytes, "0x6038", "0x5f", "0x39"] as const), // copies the call's data, which follows this code, to memory
    ...(["0x5f5f", "0x61", bytes, "0x5f5f", "0x73", to, "0x5a", "0xf1", "0x50"] as const), // makes the call
    ...(["0x3d5f5f3e", "0x3d5fa0", "0x00"] as const), // logs its answer
  ];
  const code = concat(program);
  return concat([pad(code, { dir: "right", size: 0x38 }), data]);
}

test("the proxy settles nothing while a settlement is in progress", async () => {
  const { chain } = devnet;
  const payer = await newPayer(devnet, 0n);
  const token = privateKeyToAddress(randomNonce());
  await chain.client.setCode({ address: token, bytecode: callingBack(settleCall(await sign(payer))) });
  const hash = await chain.permit2.settle(await sign(payer, { token }));
  const { logs } = await chain.client.getTransactionReceipt({ hash });
  const [said] = logs.filter(({ address }) => isAddressEqual(address, token));
  expect(decodeErrorResult({ abi: ABI, data: said?.data ?? "0x" })).toMatchObject({
    errorName: "ReentrancyGuardReentrantCall",
  });
});

describe("settleWithPermit", () => {
  let payer: DevAccount;
  beforeAll(async () => {
    payer = await newPayer(devnet);
  });

  async function withPermit(token: Hex, value: bigint): Promise<Call> {
    const signed = await sign(payer, { token });
    const deadline = inTenMinutes();
    const signature = await signTyped(payer, {
      domain: { name: "USDC", version: "2", chainId: devnet.chainId, verifyingContract: token },
      types: { Permit: PERMIT_FIELDS },
      primaryType: "Permit",
      message: { owner: payer.address, spender: ADDRESSES.permit2, value, nonce: 0n, deadline },
    });
    const { r, s, yParity } = parseSignature(signature);
    const { args } = decodeFunctionData({ abi: exactPermit2ProxyAbi, data: settleCall(signed).data });
    const [permit, owner, witness, own] = args as ContractFunctionArgs<
      typeof exactPermit2ProxyAbi,
      "nonpayable",
      "settle"
    >;
    const given = { value, deadline, r, s, v: 27 + yParity };
    const data = encodeFunctionData({
      abi: exactPermit2ProxyAbi,
      functionName: "settleWithPermit",
      args: [given, permit, owner, witness, own],
    });
    return { to: ADDRESSES.exactPermit2Proxy, data };
  }

  async function eventsOf(call: Call): Promise<string[]> {
    const hash = await devnet.chain.send(call);
    const { logs } = await devnet.chain.client.getTransactionReceipt({ hash });
    return parseEventLogs({ abi: exactPermit2ProxyAbi, logs }).map(({ eventName }) => eventName);
  }

  test("pays by a token's own permit and not by an earlier allowance, if the permit is for the same amount", async () => {
    expect(await refusal(await withPermit(devnet.token, 8n))).toEqual({
      name: "Permit2612AmountMismatch",
      args: [],
    });
    expect(await eventsOf(await withPermit(devnet.token, 7n))).toEqual(["SettledWithPermit"]);
    expect(await devnet.chain.chargesOf(payer.address)).toMatchObject([{ value: 7n }]);
  });

  test("pays by an earlier allowance if the token has no such permit, and reports that the permit failed", async () => {
    const { dai } = devnet.permit2Tokens;
    await devnet.chain.mint(payer.address, 1000n, dai);
    const call = await withPermit(dai, 7n);
    expect(await refusal(call)).toEqual({ name: "Error", args: ["TRANSFER_FROM_FAILED"] });
    await devnet.chain.permit2.approve(payer, dai);
    expect(await eventsOf(call)).toEqual(["EIP2612PermitFailedWithData", "SettledWithPermit"]);
  });
});
