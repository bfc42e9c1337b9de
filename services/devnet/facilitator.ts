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
import { CHAIN_ID, type Chain } from "./chain.ts";
import { createLateTransfers } from "./late-transfer.ts";
import { type Payment, paymentOf } from "./payment.ts";
import { createTurns } from "./turns.ts";

/** The body of POST /verify and POST /settle, of either version; that it has this shape is for the SDK to find out. */
export type FacilitatorRequest = {
  paymentPayload: PaymentPayload;
  paymentRequirements: PaymentRequirements;
};

export type Facilitator = {
  supported(): SupportedResponse;
  verify(request: FacilitatorRequest): Promise<VerifyResponse>;
  settle(request: FacilitatorRequest): Promise<SettleResponse>;
  /**
   * Answers `settlement_pending` at once; the transaction it names is sent after this time, or never. A version 2
   * payment whose transaction comes is remembered as the SDK does: settling it again waits for that transaction.
   */
  settleLater(request: FacilitatorRequest, landsAfterMs: number | undefined): Promise<SettleResponse>;
  stop(): void;
};

type Options = {
  /** Connected as the facilitator's account. */
  chain: Chain;
  /** For how long a settle waits for its transaction before it answers `settlement_pending`. */
  confirmationTimeoutMs: number;
};

/** The reference facilitator of the x402 packages, for the exact scheme of versions 1 and 2 on the devnet's chain. */
export function createFacilitator({ chain, confirmationTimeoutMs }: Options): Facilitator {
  const signer = createSigner(chain, confirmationTimeoutMs);
  const pendingSettlementStore = new InMemoryPendingSettlementStore();
  const sdk = new x402Facilitator()
    .register(`eip155:${CHAIN_ID}`, new ExactEvmScheme(signer, { pendingSettlementStore }))
    // A name of version 1, which the packages type as if it were one of version 2.
    .registerV1("base-sepolia" as `${string}:${string}`, new ExactEvmSchemeV1(signer));
  const late = createLateTransfers(chain);
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
