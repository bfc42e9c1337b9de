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
import { keccak256, parseEther, parseGwei } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { ADDRESSES, CHAIN_ID, type Chain, createTurns, type Hex } from "./chain.ts";
import { type Payment, paymentOf } from "./exact-payment.ts";

/** The body of POST /verify and POST /settle, of either version. The SDK checks that it has this shape. */
export type FacilitatorRequest = {
  paymentPayload: PaymentPayload;
  paymentRequirements: PaymentRequirements;
};

export type Facilitator = {
  supported(): SupportedResponse;
  verify(request: FacilitatorRequest): Promise<VerifyResponse>;
  settle(request: FacilitatorRequest): Promise<SettleResponse>;
  /**
   * Answers `settlement_pending` at once and sends the transaction after this time, or never. As in the SDK, settling a
   * version 2 payment again then waits for that transaction.
   */
  settleLater(request: FacilitatorRequest, landsAfterMs: number | undefined): Promise<SettleResponse>;
  stop(): void;
};

/**
 * The reference facilitator of the x402 packages, for the exact scheme of versions 1 and 2 on the devnet's chain. It sends as
 * the account that `chain` is connected as, and has wallets deployed by the devnet's factory only. A settle waits
 * `confirmationTimeoutMs` for its transaction and then answers `settlement_pending`.
 */
export function createFacilitator(chain: Chain, confirmationTimeoutMs: number): Facilitator {
  const signer = createSigner(chain, confirmationTimeoutMs);
  const pendingSettlementStore = new InMemoryPendingSettlementStore();
  const wallets = { eip6492AllowedFactories: [ADDRESSES.walletFactory] };
  const sdk = new x402Facilitator()
    .register(`eip155:${CHAIN_ID}`, new ExactEvmScheme(signer, { pendingSettlementStore, ...wallets }))
    // The packages type this name of version 1 as if it were one of version 2.
    .registerV1("base-sepolia" as `${string}:${string}`, new ExactEvmSchemeV1(signer, wallets));
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

function createSigner(
  chain: Chain,
  confirmationTimeoutMs: number,
): ConstructorParameters<typeof ExactEvmScheme>[0] {
  const inTurn = createTurns();
  return {
    getAddresses: () => [chain.account.address],
    readContract: (call) => chain.readContract(call),
    verifyTypedData: (data) => chain.verifyTypedData(data as Parameters<Chain["verifyTypedData"]>[0]),
    writeContract: (call) => inTurn(() => chain.writeContract(call)),
    sendTransaction: (transaction) => inTurn(() => chain.sendTransaction(transaction)),
    waitForTransactionReceipt: ({ hash }) =>
      chain.waitForTransactionReceipt({ hash, timeout: confirmationTimeoutMs }),
    getCode: (at) => chain.getCode(at),
  };
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
 * Makes transactions whose hash is known before they are sent. Each has an account of its own: one that is never sent would
 * otherwise hold up all later ones of the account.
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
    /** Sends it after this time; whether the chain takes it does not matter here. */
    send({ raw }: LateTransaction, afterMs: number): void {
      delay(afterMs, stopped.signal)
        .then(() => chain.sendRawTransaction({ serializedTransaction: raw }))
        .catch(() => {});
    },
    stop: () => stopped.abort(),
  };
}
