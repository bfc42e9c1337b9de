import { InMemoryPendingSettlementStore, x402Facilitator } from "@x402/core/facilitator";
import type {
  PaymentPayload,
  PaymentRequirements,
  SettleResponse,
  SupportedResponse,
  VerifyResponse,
} from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import {
  keccak256,
  parseEther,
  parseGwei,
  parseTransaction,
  recoverTransactionAddress,
  type TransactionSerialized,
  type TransactionSerializedEIP1559,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { ADDRESSES, CHAIN_ID, type Chain, createSerialQueue, type Hex } from "./chain.ts";
import { type Payment, paymentOf } from "./exact-payment.ts";

/**
 * Body of POST /verify and POST /settle, in either version of the protocol. It is not checked here, because the x402 SDK
 * checks that it has this shape.
 */
export type FacilitatorRequest = {
  paymentPayload: PaymentPayload;
  paymentRequirements: PaymentRequirements;
};

export type Facilitator = {
  supported(): SupportedResponse;
  verify(request: FacilitatorRequest): Promise<VerifyResponse>;
  settle(request: FacilitatorRequest): Promise<SettleResponse>;
  /**
   * Answers `settlement_pending` at once, and sends the transaction after `landsAfterMs`. If this is undefined, it never
   * sends the transaction. Otherwise it also writes the hash into the SDK's store of pending settlements. A second settle
   * request for a version 2 payment then waits for that transaction.
   */
  settleLater(request: FacilitatorRequest, landsAfterMs: number | undefined): Promise<SettleResponse>;
  stop(): void;
};

/**
 * Creates a facilitator from the x402 packages, as public facilitators do. It supports the `exact` scheme in versions 1
 * and 2 of the protocol, on the devnet's chain. It sends its transactions from the account of `chain`. It deploys a
 * payer's wallet only with the devnet's factory. If a payer has no ether for gas, it sends the payer's approval of
 * Permit2 for them. A settle request waits at most `confirmationTimeoutMs` until its transaction is confirmed, and then
 * gets `settlement_pending`.
 */
export function createFacilitator(chain: Chain, confirmationTimeoutMs: number): Facilitator {
  const runSerially = createSerialQueue();
  const signer = createSigner(chain, confirmationTimeoutMs, runSerially);
  const pendingSettlementStore = new InMemoryPendingSettlementStore();
  const wallets = { eip6492AllowedFactories: [ADDRESSES.walletFactory] };
  const sdk = new x402Facilitator()
    .register(`eip155:${CHAIN_ID}`, new ExactEvmScheme(signer, { pendingSettlementStore, ...wallets }))
    // "base-sepolia" is the network's name in version 1. The cast is needed because the SDK's types allow only version 2's form.
    .registerV1("base-sepolia" as `${string}:${string}`, new ExactEvmSchemeV1(signer, wallets));
  for (const extension of gasSponsorings(chain, signer, runSerially)) sdk.registerExtension(extension);
  const late = createLateTransactions(chain);
  return {
    supported: () => sdk.getSupported() as SupportedResponse,
    verify: ({ paymentPayload, paymentRequirements }) => sdk.verify(paymentPayload, paymentRequirements),
    settle: ({ paymentPayload, paymentRequirements }) => sdk.settle(paymentPayload, paymentRequirements),
    async settleLater(request, landsAfterMs) {
      const payment = paymentOf(request);
      const transaction = await late.prepare(payment);
      if (landsAfterMs !== undefined) {
        await pendingSettlementStore.set(payment.signature, transaction.hash);
        late.send(transaction, landsAfterMs);
      }
      return pending(request, payment, transaction.hash);
    },
    stop: () => late.stop(),
  };
}

type Signer = ConstructorParameters<typeof ExactEvmScheme>[0];
type RunSerially = ReturnType<typeof createSerialQueue>;

function createSigner(chain: Chain, confirmationTimeoutMs: number, runSerially: RunSerially): Signer {
  return {
    getAddresses: () => [chain.account.address],
    readContract: (call) => chain.readContract(call),
    verifyTypedData: (data) => chain.verifyTypedData(data as Parameters<Chain["verifyTypedData"]>[0]),
    writeContract: (call) => runSerially(() => chain.writeContract(call)),
    sendTransaction: (transaction) => runSerially(() => chain.sendTransaction(transaction)),
    waitForTransactionReceipt: ({ hash }) =>
      chain.waitForTransactionReceipt({ hash, timeout: confirmationTimeoutMs }),
    getCode: (at) => chain.getCode(at),
  };
}

/**
 * Returns the two extensions of x402 for payers without ether for gas, who must give Permit2 an allowance. In the first,
 * the payer signs the token's own permit (EIP-2612). It needs no transaction of its own, because the x402 proxy submits
 * the permit with the payment. In the second, the payer signs a transaction that approves Permit2. The facilitator sends
 * the payer the missing ether, and then sends this transaction.
 */
function gasSponsorings(chain: Chain, signer: Signer, runSerially: RunSerially) {
  async function approve(raw: TransactionSerialized): Promise<Hex> {
    const { gas = 0n, maxFeePerGas = 0n } = parseTransaction(raw as TransactionSerializedEIP1559);
    const payer = await recoverTransactionAddress({ serializedTransaction: raw });
    const missing = gas * maxFeePerGas - (await chain.getBalance({ address: payer }));
    if (missing > 0n)
      await mined(await runSerially(() => chain.sendTransaction({ to: payer, value: missing })));
    return mined(await chain.sendRawTransaction({ serializedTransaction: raw }));
  }

  async function mined(hash: Hex): Promise<Hex> {
    const { status } = await signer.waitForTransactionReceipt({ hash });
    if (status !== "success") throw new Error(`transaction ${hash} failed`);
    return hash;
  }

  /** Sends the transactions one after the other. A string is a signed transaction; any other value is a call to send. */
  async function sendTransactions(requests: readonly (Hex | { to: Hex; data: Hex })[]): Promise<Hex[]> {
    const hashes: Hex[] = [];
    for (const request of requests) {
      const send = () => signer.sendTransaction(request as { to: Hex; data: Hex });
      hashes.push(await (typeof request === "string" ? approve(request as TransactionSerialized) : send()));
    }
    return hashes;
  }

  return [
    { key: "eip2612GasSponsoring" },
    { key: "erc20ApprovalGasSponsoring", signer: { ...signer, sendTransactions } },
  ];
}

function pending(
  { paymentRequirements }: FacilitatorRequest,
  { from }: Payment,
  transaction: string,
): SettleResponse {
  return {
    success: false,
    errorReason: "settlement_pending",
    transaction,
    network: paymentRequirements.network,
    payer: from,
  };
}

type LateTransaction = { readonly hash: Hex; readonly raw: Hex };

/**
 * Makes transactions whose hash is known before they are sent. Each is sent from an account of its own. If one account
 * sent them all, a transaction that is never sent would block the later ones, because the chain expects its nonce first.
 */
function createLateTransactions(chain: Chain) {
  const stopped = new AbortController();
  return {
    async prepare(payment: Payment): Promise<LateTransaction> {
      const account = privateKeyToAccount(generatePrivateKey());
      await chain.setBalance({ address: account.address, value: parseEther("1") });
      const raw = await account.signTransaction({
        chainId: CHAIN_ID,
        type: "eip1559",
        nonce: 0,
        ...payment.call(),
        gas: 2_000_000n,
        maxFeePerGas: parseGwei("100"),
        maxPriorityFeePerGas: parseGwei("1"),
      });
      return { raw, hash: keccak256(raw) };
    },
    /** Sends the transaction after this time. If the chain refuses it, nothing happens. */
    send({ raw }: LateTransaction, afterMs: number): void {
      delay(afterMs, stopped.signal)
        .then(() => chain.sendRawTransaction({ serializedTransaction: raw }))
        .catch(() => {});
    },
    stop: () => stopped.abort(),
  };
}
