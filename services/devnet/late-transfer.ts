import { encodeFunctionData, keccak256, parseEther, parseGwei } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { delay } from "../../shared/time/clock.ts";
import type { Hex } from "./accounts.ts";
import { CHAIN_ID, type Chain } from "./chain.ts";
import { tokenAbi } from "./contracts/token.ts";
import type { Payment } from "./payment.ts";

export type LateTransaction = { readonly hash: Hex; readonly raw: Hex };

/**
 * Transactions whose hash is known before they are sent. Each has an account of its own, so that one that is never sent
 * holds nothing up.
 */
export function createLateTransfers(chain: Chain) {
  const stopped = new AbortController();
  return {
    async prepare(payment: Payment): Promise<LateTransaction> {
      const account = privateKeyToAccount(generatePrivateKey());
      await chain.setBalance({ address: account.address, value: parseEther("1") });
      const raw = await account.signTransaction({
        chainId: CHAIN_ID,
        type: "eip1559",
        nonce: 0,
        to: payment.asset,
        data: transferData(payment),
        gas: 300_000n,
        maxFeePerGas: parseGwei("100"),
        maxPriorityFeePerGas: parseGwei("1"),
      });
      return { raw, hash: keccak256(raw) };
    },
    /** Sends it after this time; that the chain then refuses it is nobody's concern here. */
    send({ raw }: LateTransaction, afterMs: number): void {
      delay(afterMs, stopped.signal)
        .then(() => chain.sendRawTransaction({ serializedTransaction: raw }))
        .catch(() => {});
    },
    stop: () => stopped.abort(),
  };
}

function transferData({ from, to, value, validAfter, validBefore, nonce, signature }: Payment): Hex {
  return encodeFunctionData({
    abi: tokenAbi,
    functionName: "transferWithAuthorization",
    args: [from, to, value, validAfter, validBefore, nonce, signature],
  });
}
