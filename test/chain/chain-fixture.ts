import { randomBytes } from "node:crypto";
import {
  createTestClient,
  encodeFunctionData,
  type Hex,
  http,
  maxUint256,
  parseAbi,
  parseSignature,
  publicActions,
  walletActions,
} from "viem";
import { mnemonicToAccount } from "viem/accounts";
import { startAnvil } from "../../services/devnet/anvil.ts";
import { multicall3Code } from "../../services/devnet/contracts/multicall3.ts";
import { tokenAbi, tokenCode } from "../../services/devnet/contracts/token.ts";
import type { TokenAuthorization } from "../../shared/ethereum/logs.ts";
import { TRANSFER_TYPES } from "../support/transfer-types.ts";

const PHRASE = "test test test test test test test test test test test junk";
const CHAIN_ID = 84532;
const BATCH = "0xcA11bde05977b3631167028862bE2a173976CA11";
const batchAbi = parseAbi([
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable returns ((bool success, bytes returnData)[])",
]);

export const ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
export const payer = mnemonicToAccount(PHRASE, { addressIndex: 4 });
export const sender = mnemonicToAccount(PHRASE, { addressIndex: 2 });
export const SELLER = mnemonicToAccount(PHRASE, { addressIndex: 3 }).address;

const domain = { name: "USDC", version: "2", chainId: CHAIN_ID, verifyingContract: ASSET } as const;
const types = {
  ...TRANSFER_TYPES,
  ReceiveWithAuthorization: TRANSFER_TYPES.TransferWithAuthorization,
  CancelAuthorization: [
    { name: "authorizer", type: "address" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

export type ChainFixture = Awaited<ReturnType<typeof startChainFixture>>;

/** A real chain with a token on it, where `payer` has money. `finalized` is two blocks behind the head. */
export async function startChainFixture() {
  const anvil = await startAnvil({ env: process.env, chainId: CHAIN_ID, port: undefined });
  const client = createTestClient({ mode: "anvil", transport: http(anvil.rpcUrl), pollingInterval: 20 })
    .extend(publicActions)
    .extend(walletActions);
  await client.setCode({ address: ASSET, bytecode: tokenCode });
  await client.setCode({ address: BATCH, bytecode: multicall3Code });

  async function sendTo(to: Hex, data: Hex, account = sender): Promise<Hex> {
    const hash = await client.sendTransaction({ account, to, data, chain: null });
    const { status } = await client.waitForTransactionReceipt({ hash });
    if (status !== "success") throw new Error("the transaction failed");
    return hash;
  }
  const sendToToken = (data: Hex, account = sender) => sendTo(ASSET, data, account);

  await sendToToken(
    encodeFunctionData({ abi: tokenAbi, functionName: "mint", args: [payer.address, 10n ** 12n] }),
  );
  await sendToToken(
    encodeFunctionData({ abi: tokenAbi, functionName: "approve", args: [BATCH, maxUint256] }),
    payer,
  );

  const block = (blockTag: "latest" | "finalized" = "latest") => client.getBlock({ blockTag });

  /** An authorization of `payer` to the seller, good for `seconds` of the chain's time. */
  async function authorization(
    changes: Partial<TokenAuthorization> = {},
    seconds = 3600n,
  ): Promise<TokenAuthorization> {
    const validBefore = (await block()).timestamp + seconds;
    const nonce: Hex = `0x${randomBytes(32).toString("hex")}`;
    const given = { asset: ASSET, from: payer.address, to: SELLER, value: 1000n, validAfter: 0n } as const;
    return { ...given, validBefore, nonce, ...changes };
  }

  type Kind = "TransferWithAuthorization" | "ReceiveWithAuthorization";

  async function spendData(message: TokenAuthorization, primaryType: Kind): Promise<Hex> {
    const signature = await payer.signTypedData({ domain, types, primaryType, message });
    const { r, s, v } = parseSignature(signature);
    const { from, to, value, validAfter, validBefore, nonce } = message;
    const functionName =
      primaryType === "TransferWithAuthorization" ? "transferWithAuthorization" : "receiveWithAuthorization";
    const args = [from, to, value, validAfter, validBefore, nonce, Number(v), r, s] as const;
    return encodeFunctionData({ abi: tokenAbi, functionName, args });
  }

  return {
    rpcUrl: anvil.rpcUrl,
    chainId: CHAIN_ID,
    client,
    block,
    authorization,
    stop: () => anvil.stop(),
    mine: (blocks: number) => client.mine({ blocks }),
    /** A block of that time, and no more. */
    async mineAt(timestamp: bigint): Promise<void> {
      await client.setNextBlockTimestamp({ timestamp });
      await client.mine({ blocks: 1 });
    },
    pay: async (its: TokenAuthorization) => sendToToken(await spendData(its, "TransferWithAuthorization")),
    /** Only its recipient can: the payer, where he pays himself. */
    receive: async (its: TokenAuthorization) =>
      sendToToken(await spendData(its, "ReceiveWithAuthorization"), payer),
    async cancel({ from, nonce }: TokenAuthorization): Promise<Hex> {
      const message = { authorizer: from, nonce };
      const primaryType = "CancelAuthorization";
      const { r, s, v } = parseSignature(await payer.signTypedData({ domain, types, primaryType, message }));
      const args = [from, nonce, Number(v), r, s] as const;
      return sendToToken(encodeFunctionData({ abi: tokenAbi, functionName: "cancelAuthorization", args }));
    },
    /** One transaction: a transfer by allowance where a number stands, an authorization where one does. */
    async batch(parts: readonly (bigint | TokenAuthorization)[]): Promise<Hex> {
      const calls = parts.map(async (part) => {
        const args = [payer.address, SELLER, part as bigint] as const;
        const callData =
          typeof part === "bigint"
            ? encodeFunctionData({ abi: tokenAbi, functionName: "transferFrom", args })
            : await spendData(part, "TransferWithAuthorization");
        return { target: ASSET, allowFailure: false, callData } as const;
      });
      const args = [await Promise.all(calls)] as const;
      return sendTo(BATCH, encodeFunctionData({ abi: batchAbi, functionName: "aggregate3", args }));
    },
  };
}
