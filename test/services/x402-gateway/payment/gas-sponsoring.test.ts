import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  declareEip2612GasSponsoringExtension,
  declareErc20ApprovalGasSponsoringExtension,
} from "@x402/extensions";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { encodeFunctionData, parseSignature } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { DevAccount } from "../../../../services/dev/chain/chain.ts";
import { tokenAbi } from "../../../../services/dev/chain/contracts/token.ts";
import { DECLARATIONS } from "../../../../services/x402-gateway/schemes/gas-sponsoring.ts";
import { EXACT_PROXY, PERMIT2 } from "../../../../shared/chain/permit2.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys } from "../../../fixtures/redis.ts";
import { idIn, JOB_PATH, PRICE, type TestX402, useX402, withoutPayerFields } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import {
  type ApprovalChoice,
  type PermitChoice,
  signApprovalInfo,
  signPermitInfo,
} from "../../../support/gas-sponsoring.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { answerWith, faultyNode, type Rpc, startNodeBefore } from "../../../support/node-before.ts";
import { encodeHeader } from "../../../support/sign-payment.ts";
import { PERMIT2_USDC, permit2Payment, permit2Token } from "../permit2-gateway.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const { devnet } = fixture;
const ends = useEnds();

const PERMIT = "eip2612GasSponsoring";
const APPROVAL = "erc20ApprovalGasSponsoring";
type Name = typeof PERMIT | typeof APPROVAL;
const UNAPPROVED = "payment.allowance_required";

/** Starts a gateway with a token whose payers need this extension. */
const sellFor = (name: Name, x402 = {}, token = {}) =>
  fixture.gateway({
    token: { ...(name === PERMIT ? PERMIT2_USDC : permit2Token(devnet, "usdt")), ...token },
    x402,
  });
const assetOf = (name: Name) => (name === PERMIT ? devnet.token : devnet.permit2Tokens.usdt);

/** A payer with tokens, without ether, and without an approval of Permit2. */
async function payerFor(name: Name): Promise<DevAccount> {
  const payer = await newPayer(devnet, 0n);
  await devnet.chain.mint(payer.address, 10n * PRICE, assetOf(name));
  fixture.payer = payer;
  return payer;
}

const signInfo = (name: Name, payer: DevAccount) =>
  name === PERMIT
    ? signPermitInfo({ payer, amount: PRICE })
    : signApprovalInfo({ payer, token: assetOf(APPROVAL) });

/** A payment that can be sent with different approvals. */
async function payment(x402: TestX402, payer: DevAccount) {
  const { payload } = await permit2Payment(x402, { payer });
  return (extensions: object) => ({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, extensions }) });
}

async function pay(x402: TestX402, payer: DevAccount, name: string, info: object) {
  return x402.post((await payment(x402, payer))({ [name]: { info } }));
}

const charged = async (payer: DevAccount, name: Name) =>
  (await devnet.chain.chargesOf(payer.address, assetOf(name))).map(({ value }) => value);
const codeIn = (answer: { status: number; json(): Record<string, unknown> }) => [
  answer.status,
  answer.json()["code"],
];
const declared = async (x402: TestX402) =>
  Object.keys((await x402.ask()).v2.extensions ?? {}).filter((name) => name !== "payment-identifier");

/** Lets the facilitator report no extension. */
async function nameNothing(): Promise<void> {
  const kinds = [{ x402Version: 2, scheme: "exact", network: devnet.network }];
  const body = JSON.stringify({ kinds, extensions: [], signers: {} });
  await devnet.control.fault({ on: "supported", kind: "status", status: 200, body });
}

/** Sends the approval to the chain as a stranger. */
async function sendApproval(name: Name, payer: DevAccount, info: Awaited<ReturnType<typeof signInfo>>) {
  if ("signedTransaction" in info) {
    await devnet.chain.client.setBalance({ address: payer.address, value: 10n ** 18n });
    const hash = await devnet.chain.client.sendRawTransaction({
      serializedTransaction: info.signedTransaction,
    });
    await devnet.chain.client.waitForTransactionReceipt({ hash });
    return;
  }
  const { r, s, v } = parseSignature(info.signature);
  const args = [payer.address, PERMIT2, PRICE, BigInt(info.deadline), Number(v), r, s] as const;
  const data = encodeFunctionData({ abi: tokenAbi, functionName: "permit", args });
  await devnet.chain.send({ to: assetOf(name), data });
}

const BUYERS = [
  [PERMIT, "a permit of the token", {}],
  [APPROVAL, "a signed approval", {}],
  [PERMIT, "a permit of a token without a node", { trust_facilitator: true }],
  [APPROVAL, "a signed approval of a token without a node", { trust_facilitator: true }],
] as const;
test.each(sample(BUYERS, 2))(
  "a payer with tokens and no gas buys with the unmodified official client: %s, by %s",
  async (name, _what, trust) => {
    const noNode = { rpc_url: undefined, confirmations: undefined };
    const x402 = await sellFor(name, trust, "trust_facilitator" in trust ? noNode : {});
    const payer = await payerFor(name);
    const account = privateKeyToAccount(payer.privateKey);
    const scheme = new ExactEvmScheme(account, { rpcUrl: devnet.rpcUrl });
    const client = new x402Client().register("eip155:*", scheme).setSpendControls(false);
    const buy = wrapFetchWithPayment(fetch, client);
    for (const _ of [1, 2]) {
      const answer = await buy(`http://${x402.address}${JOB_PATH}`, { method: "POST", body: "hello" });
      expect(answer.status).toBe(202);
    }
    expect([await charged(payer, name), (await x402.waiting()).length]).toEqual([[PRICE, PRICE], 2]);
  },
);

test("a 402 offers an extension only for a token that needs it, and only if a facilitator names it", async () => {
  expect(await declared(await fixture.gateway())).toEqual([]);
  expect(await declared(await sellFor(PERMIT))).toEqual([PERMIT, APPROVAL]);
  expect(await declared(await sellFor(APPROVAL))).toEqual([APPROVAL]);
  await nameNothing();
  expect(await declared(await sellFor(PERMIT))).toEqual([]);
});

test("the declarations have the members of those of the official package", () => {
  type Declaration = { info: object; schema: { properties: object; required: string[] } };
  const membersOf = (declaration: unknown) => {
    const { info, schema } = declaration as Declaration;
    return [Object.keys(info), Object.keys(schema.properties), schema.required].map((names) =>
      names.toSorted(),
    );
  };
  expect(membersOf(DECLARATIONS[PERMIT])).toEqual(membersOf(declareEip2612GasSponsoringExtension()[PERMIT]));
  expect(membersOf(DECLARATIONS[APPROVAL])).toEqual(
    membersOf(declareErc20ApprovalGasSponsoringExtension()[APPROVAL]),
  );
});

const stranger = () => newPayer(devnet, 0n);
const past = BigInt(Math.floor(Date.now() / 1000) - 60);

const BAD_PERMITS: readonly [string, () => Promise<Partial<PermitChoice>>][] = [
  ["for another spender", async () => ({ spender: EXACT_PROXY })],
  ["for another amount", async () => ({ amount: PRICE + 1n })],
  ["for another chain", async () => ({ chainId: 1 })],
  ["with a nonce that is not the next", async () => ({ nonce: 1n })],
  ["that has expired", async () => ({ deadline: past })],
  ["by another owner", async () => ({ signer: await stranger() })],
];
test.each(sample(BAD_PERMITS))(
  "a permit %s approves nothing: 412, and no facilitator is asked",
  async (_what, choose) => {
    const x402 = await sellFor(PERMIT);
    const payer = await payerFor(PERMIT);
    const answer = await pay(
      x402,
      payer,
      PERMIT,
      await signPermitInfo({ payer, amount: PRICE, ...(await choose()) }),
    );
    expect(codeIn(answer)).toEqual([412, UNAPPROVED]);
    expect(answer.json()["detail"]).toContain(`${PERMIT} that was sent cannot be used`);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

onlyInLongRun(() => {
  test("a permit whose nonce is used approves nothing, and the payer can sign the next one", async () => {
    const x402 = await sellFor(PERMIT);
    const payer = await payerFor(PERMIT);
    const first = await signPermitInfo({ payer, amount: PRICE });
    expect((await pay(x402, payer, PERMIT, first)).status).toBe(202);
    expect(codeIn(await pay(x402, payer, PERMIT, first))).toEqual([412, UNAPPROVED]);
    const next = await signPermitInfo({ payer, amount: PRICE, nonce: 1n });
    expect((await pay(x402, payer, PERMIT, next)).status).toBe(202);
    expect(await charged(payer, PERMIT)).toEqual([PRICE, PRICE]);
  });
});

const BAD_APPROVALS: readonly [string, () => Promise<Partial<ApprovalChoice>>][] = [
  ["of another token", async () => ({ to: devnet.permit2Tokens.dai })],
  ["of another spender", async () => ({ spender: EXACT_PROXY })],
  ["of too small an amount", async () => ({ amount: PRICE - 1n })],
  ["that calls another function", async () => ({ functionName: "transfer" })],
  ["that also sends ether", async () => ({ value: 1n })],
  ["with an access list", async () => ({ accessList: [{ address: PERMIT2, storageKeys: [] }] })],
  ["with too low a fee", async () => ({ maxFeePerGas: 1n })],
  ["with too little gas", async () => ({ gas: 30_000n })],
  ["with no gas", async () => ({ gas: 0n })],
  ["with a nonce that is not the next", async () => ({ nonce: 1 })],
  ["for another chain", async () => ({ chainId: 1 })],
  ["by another key", async () => ({ signer: await stranger() })],
  ["in a transaction of another type", async () => ({ type: "legacy" })],
];
test.each(sample(BAD_APPROVALS))(
  "an approval %s approves nothing: 412, and no facilitator is asked",
  async (_what, choose) => {
    const x402 = await sellFor(APPROVAL);
    const payer = await payerFor(APPROVAL);
    const info = await signApprovalInfo({ payer, token: assetOf(APPROVAL), ...(await choose()) });
    const answer = await pay(x402, payer, APPROVAL, info);
    expect(codeIn(answer)).toEqual([412, UNAPPROVED]);
    expect(answer.json()["detail"]).toContain(`${APPROVAL} that was sent cannot be used`);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

onlyInLongRun(() => {
  test("an approval that the token answers with false approves nothing", async () => {
    const isApprove = ({ method, params: [call] }: Rpc) =>
      method === "eth_call" && (call as unknown as { data: string }).data.startsWith("0x095ea7b3");
    const node = await startNodeBefore(
      devnet.rpcUrl,
      (rpc, res) => isApprove(rpc) && answerWith(`0x${"0".repeat(64)}`, rpc, res),
    );
    ends.defer(() => node.close());
    const x402 = await sellFor(APPROVAL, {}, { rpc_url: node.url });
    const payer = await payerFor(APPROVAL);
    expect(codeIn(await pay(x402, payer, APPROVAL, await signInfo(APPROVAL, payer)))).toEqual([
      412,
      UNAPPROVED,
    ]);
  });

  test("a node that is behind does not make the nonce of an approval wrong", async () => {
    // One count of three is that of a node five blocks behind.
    const behind = faultyNode(devnet.rpcUrl, { lag: 5 });
    const node = await startNodeBefore(
      devnet.rpcUrl,
      (rpc, res) => rpc.method === "eth_getTransactionCount" && behind(rpc, res),
    );
    ends.defer(() => node.close());
    const x402 = await sellFor(APPROVAL, {}, { rpc_url: node.url });
    const codes = [];
    for (let i = 0; i < 3; i++) {
      const payer = await payerFor(APPROVAL);
      await devnet.chain.mine(5);
      await devnet.chain.sendFrom(payer, { to: payer.address, data: "0x" });
      const info = await signApprovalInfo({ payer, token: assetOf(APPROVAL), nonce: 1 });
      codes.push((await pay(x402, payer, APPROVAL, info)).status);
    }
    expect(codes).toEqual([202, 202, 202]);
  });

  test("an approval that the token refuses approves nothing: USDT changes no allowance that is not 0", async () => {
    const x402 = await sellFor(APPROVAL);
    const payer = await payerFor(APPROVAL);
    await devnet.chain.permit2.approve(payer, assetOf(APPROVAL), 1n);
    const info = await signApprovalInfo({ payer, token: assetOf(APPROVAL), nonce: 1 });
    expect(codeIn(await pay(x402, payer, APPROVAL, info))).toEqual([412, UNAPPROVED]);
  });
});

const MALFORMED: readonly [string, Name, object][] = [
  ["names another spender", PERMIT, { spender: EXACT_PROXY }],
  ["names another owner", PERMIT, { from: EXACT_PROXY }],
  ["names another token", APPROVAL, { asset: EXACT_PROXY }],
  ["has an amount above 2^256", PERMIT, { amount: "9".repeat(78) }],
  ["has a number for an amount", PERMIT, { amount: 3 }],
  ["has a short signature", PERMIT, { signature: "0x1234" }],
  ["has a signature that is null", PERMIT, { signature: null }],
  ["lacks its deadline", PERMIT, { deadline: undefined }],
  ["is of another version", APPROVAL, { version: "2" }],
  ["has a transaction above 512 bytes", APPROVAL, { signedTransaction: `0x${"02".repeat(513)}` }],
  ["has an empty transaction", APPROVAL, { signedTransaction: "0x" }],
  ["has a transaction that is not hex", APPROVAL, { signedTransaction: "0xzz" }],
];
onlyInLongRun(() => {
  test.each(MALFORMED)(
    "an info that %s is refused as malformed, and no facilitator is asked",
    async (_what, name, changes) => {
      const x402 = await sellFor(name);
      const payer = await payerFor(name);
      const answer = await pay(x402, payer, name, { ...(await signInfo(name, payer)), ...changes });
      expect(codeIn(answer)).toEqual([402, "payment.malformed"]);
      expect(answer.json()["detail"]).toContain(`extensions.${name}.info`);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );
});

const IGNORED: readonly [string, unknown][] = [
  ["not an object", 7],
  ["null", null],
  ["our unchanged declaration", { info: { description: "The facilitator pays.", version: "1" }, schema: {} }],
];
test.each(sample(IGNORED))("an extension that is %s is ignored", async (_what, extension) => {
  const x402 = await sellFor(PERMIT);
  const payer = await payerFor(PERMIT);
  const headers = (await payment(x402, payer))({ [PERMIT]: extension });
  expect(codeIn(await x402.post(headers))).toEqual([412, UNAPPROVED]);
});

onlyInLongRun(() => {
  test.each([PERMIT, APPROVAL] as const)(
    "an approval by %s is ignored once no facilitator supports it, and the new offer lacks it",
    async (name) => {
      const offering = await sellFor(name);
      const payer = await payerFor(name);
      const paid = (await payment(offering, payer))({ [name]: { info: await signInfo(name, payer) } });
      await nameNothing();
      const x402 = await sellFor(name);
      const answer = await x402.post(paid);
      expect(codeIn(answer)).toEqual([412, UNAPPROVED]);
      expect(await declared(x402)).toEqual([]);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );

  test("a permit of a token without eip2612_domain is ignored", async () => {
    const x402 = await sellFor(PERMIT, {}, { eip2612_domain: undefined });
    const payer = await payerFor(PERMIT);
    expect(codeIn(await pay(x402, payer, PERMIT, await signInfo(PERMIT, payer)))).toEqual([412, UNAPPROVED]);
  });

  test.each([PERMIT, APPROVAL] as const)(
    "a payment whose approval by %s was sent before is paid without it",
    async (name) => {
      const x402 = await sellFor(name);
      const payer = await payerFor(name);
      const info = await signInfo(name, payer);
      await sendApproval(name, payer, info);
      expect((await pay(x402, payer, name, info)).status).toBe(202);
      expect(await charged(payer, name)).toEqual([PRICE]);
    },
  );

  test.each([PERMIT, APPROVAL] as const)(
    "an approval by %s that lands without its transfer is one charge and one job, settled by another gateway",
    async (name) => {
      const first = await sellFor(name, { settle_timeout_secs: 1 });
      const payer = await payerFor(name);
      const info = await signInfo(name, payer);
      await devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
      const id = idIn(await first.undisturbed(() => pay(first, payer, name, info)));
      await fixture.stop(first);
      await sendApproval(name, payer, info);
      const second = await sellFor(name, { settle_timeout_secs: 1 });
      await second.untilState(id, "QUEUED");
      expect([await charged(payer, name), (await second.waiting()).map((call) => call.id)]).toEqual([
        [PRICE],
        [id],
      ]);
    },
  );

  test.each([PERMIT, APPROVAL] as const)(
    "a settle request that is lost is sent again with the approval by %s",
    async (name) => {
      const first = await sellFor(name, { settle_timeout_secs: 1 });
      const payer = await payerFor(name);
      await devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
      const id = idIn(
        await first.undisturbed(async () => pay(first, payer, name, await signInfo(name, payer))),
      );
      await fixture.stop(first);
      const second = await sellFor(name, { settle_timeout_secs: 1 });
      await second.untilState(id, "QUEUED");
      expect([await charged(payer, name), (await second.waiting()).map((call) => call.id)]).toEqual([
        [PRICE],
        [id],
      ]);
    },
  );

  test("a payer who uses the nonce of the approval between verify and settle is not charged, gets no job, and no facilitator is asked again", async () => {
    const x402 = await sellFor(APPROVAL, { settle_timeout_secs: 1 });
    const payer = await payerFor(APPROVAL);
    await devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    const id = idIn(await pay(x402, payer, APPROVAL, await signInfo(APPROVAL, payer)));
    await devnet.chain.sendFrom(payer, { to: payer.address, data: "0x" });
    let due = await x402.redis.zscore(keys.paymentsDue, id);
    for (let look = 0; look < 8; look++) {
      due = await eventually("the reconciler looks at it", async () => {
        x402.skip(1000);
        const next = await x402.redis.zscore(keys.paymentsDue, id);
        return next === due ? undefined : next;
      });
    }
    expect((await fixture.asked()).settle).toBe(1);
    await devnet.chain.increaseTime(600);
    await devnet.chain.finalize();
    expect(await x402.untilState(id, "VOID")).toMatchObject({ reason: "expired" });
    expect([await charged(payer, APPROVAL), await x402.waiting()]).toEqual([[], []]);
  });

  test.each([PERMIT, APPROVAL] as const)(
    "a payment that a reorganisation removes together with its approval by %s is settled again, and charged once",
    async (name) => {
      const x402 = await sellFor(name);
      const payer = await payerFor(name);
      const before = await devnet.chain.snapshot();
      const id = idIn(await pay(x402, payer, name, await signInfo(name, payer)));
      await devnet.chain.revert(before);
      await devnet.chain.mine(3);
      x402.skip(35_000);
      await eventually("it is settled again", async () => {
        x402.skip(200);
        return (await charged(payer, name)).length === 1;
      });
      expect([(await fixture.asked()).settle, (await x402.waiting()).map((call) => call.id)]).toEqual([
        2,
        [id],
      ]);
    },
  );
});

test("an address that sends unusable approvals gets 429, and a payer that has approved Permit2 still pays from it", async () => {
  const x402 = await sellFor(PERMIT, { unpaid_verifies_per_address: 2 });
  const payer = await payerFor(PERMIT);
  const bad = async (nonce: bigint) =>
    (await pay(x402, payer, PERMIT, await signPermitInfo({ payer, amount: PRICE, nonce }))).status;
  expect([await bad(1n), await bad(2n), await bad(3n)]).toEqual([412, 412, 429]);
  await devnet.chain.permit2.approve(payer, assetOf(PERMIT));
  expect(await bad(4n)).toBe(202);
});

onlyInLongRun(() => {
  test("an approval that leads to a payment is not counted against its address", async () => {
    const x402 = await sellFor(APPROVAL, { unpaid_verifies_per_address: 1 });
    for (let i = 0; i < 3; i++) {
      const payer = await payerFor(APPROVAL);
      expect((await pay(x402, payer, APPROVAL, await signInfo(APPROVAL, payer))).status).toBe(202);
    }
  });

  test("one payment with different approvals, sent ten times at once to two replicas, is one charge and one job", async () => {
    const replicas = [await sellFor(PERMIT), await sellFor(PERMIT)] as const;
    const payer = await payerFor(PERMIT);
    const withApprovals = await payment(replicas[0], payer);
    const permit = { [PERMIT]: { info: await signPermitInfo({ payer, amount: PRICE }) } };
    const approval = { [APPROVAL]: { info: await signApprovalInfo({ payer, token: devnet.token }) } };
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        replicas[i % 2 ? 1 : 0].post(withApprovals(i % 3 ? permit : approval)),
      ),
    );
    expect(new Set(answers.map((answer) => `${answer.status} ${withoutPayerFields(answer)}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(202);
    const again = await replicas[0].post(withApprovals({}));
    expect([idIn(again), again.headers["idempotent-replayed"]]).toEqual([
      idIn(answers[0] as typeof again),
      "true",
    ]);
    expect([await charged(payer, PERMIT), (await replicas[0].waiting()).length]).toEqual([[PRICE], 1]);
  });
});
