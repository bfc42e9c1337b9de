import {
  createTestClient,
  type DecodeErrorResultReturnType,
  decodeErrorResult,
  encodeFunctionData,
  type Hex,
  http,
  parseEventLogs,
  publicActions,
  toHex,
  walletActions,
} from "viem";
import { mnemonicToAccount } from "viem/accounts";
import { startAnvil } from "../../services/devnet/anvil.ts";
import { keccak256Hex } from "../../shared/ethereum/encoding.ts";
import { type Compiled, compileSolidity } from "../support/compile-solidity.ts";
import { type Engine, OPERATOR, type Wire, wireRequest } from "./pricing-fixture.ts";

const PHRASE = "test test test test test test test test test test test junk";
/** Enough for every path, and given, so that a transaction that reverts is mined as well. */
const GAS = 300_000n;
/** A block is mined at once, unless the sender cannot pay. */
const MINED_WITHIN_MS = 3000;

const deployer = mnemonicToAccount(PHRASE, { addressIndex: 1 });
export const requester = mnemonicToAccount(PHRASE, { addressIndex: 4 });
export const stranger = mnemonicToAccount(PHRASE, { addressIndex: 5 });

/** What a client sends to the chain: the members of the quote are as the contract names them. */
export type Redemption = {
  quote: {
    requester: Hex;
    serviceId: bigint;
    jobIndex: number;
    price: bigint;
    timestamp: bigint;
    expiry: bigint;
    confidentiality: number;
    inputsHash: Hex;
  };
  signature: Hex;
  inputs: Hex;
  value: bigint;
  sender: typeof requester;
};

/** The arguments of the event, or the custom error. */
export type Outcome = { redeemed: unknown } | { error: string; args: readonly unknown[] };

const contracts = compileSolidity(new URL("contracts/", import.meta.url), ["QuoteRedeemer.sol"]);
const { abi, bytecode } = contracts["QuoteRedeemer"] as Compiled;

export type RedeemFixture = Awaited<ReturnType<typeof startRedeemFixture>>;

/** A real chain with a contract that takes quotes. On each chain the first contract is at the same address. */
export async function startRedeemFixture(chainId: number) {
  const anvil = await startAnvil({ env: process.env, chainId, port: undefined });
  const client = createTestClient({ mode: "anvil", transport: http(anvil.rpcUrl), pollingInterval: 20 })
    .extend(publicActions)
    .extend(walletActions);

  async function deploy(operator: Hex = OPERATOR): Promise<Hex> {
    const hash = await client.deployContract({
      abi,
      bytecode,
      args: [operator],
      account: deployer,
      chain: null,
    });
    const { contractAddress } = await client.waitForTransactionReceipt({ hash, timeout: MINED_WITHIN_MS });
    if (!contractAddress) throw new Error("not deployed");
    return contractAddress;
  }
  const contract = await deploy();

  function send({ quote, signature, inputs, value, sender }: Redemption, to = contract): Promise<Hex> {
    const data = encodeFunctionData({ abi, functionName: "redeem", args: [quote, signature, inputs] });
    return client.sendTransaction({ account: sender, to, data, value, gas: GAS, chain: null });
  }

  async function outcomeOf(hash: Hex): Promise<Outcome> {
    const { status, logs } = await client.waitForTransactionReceipt({ hash, timeout: MINED_WITHIN_MS });
    if (status === "success") {
      const [event] = parseEventLogs({ abi, logs, eventName: "Redeemed" }) as unknown as { args: unknown }[];
      return { redeemed: event?.args };
    }
    const tracer = [hash, { tracer: "callTracer" }] as const;
    const trace = await client.request<{ Method: string; Parameters: unknown; ReturnType: { output: Hex } }>({
      method: "debug_traceTransaction",
      params: tracer,
    });
    const decoded = decodeErrorResult({ abi, data: trace.output }) as DecodeErrorResultReturnType;
    return { error: decoded.errorName, args: (decoded.args ?? []) as readonly unknown[] };
  }

  const read = <T>(functionName: string, ...args: unknown[]) =>
    client.readContract({ abi, address: contract, functionName, args }) as Promise<T>;

  return {
    contract,
    deploy,
    send,
    outcomeOf,
    digestOf: (quote: Redemption["quote"]) => read<Hex>("digestOf", quote),
    balance: () => client.getBalance({ address: contract }),
    timestamp: async () => (await client.getBlock()).timestamp,
    /** Sends it in a transaction of its own, and says what came of it. */
    redeem: async (redemption: Redemption, to = contract) => outcomeOf(await send(redemption, to)),
    /** The next block, and what is in it, is of that time. */
    nextBlockAt: (timestamp: bigint) => client.setNextBlockTimestamp({ timestamp }),
    /** What is sent meanwhile is in one block. */
    async inOneBlock(hashes: () => Promise<Hex[]>): Promise<Hex[]> {
      await client.setAutomine(false);
      const sent = await hashes();
      await client.mine({ blocks: 1 });
      await client.setAutomine(true);
      return sent;
    },
    stop: () => anvil.stop(),
  };
}

/** Asks over gRPC, and makes of the answer what its client would send to the chain: no more is known than was answered. */
export async function askForRedemption(
  engine: Engine,
  inputs: Hex,
  request: Partial<Wire>,
): Promise<Redemption> {
  const inputs_hash = bytesOf(keccak256Hex(bytesOf(inputs)));
  const asked = wireRequest({ requester: bytesOf(requester.address), inputs_hash, ...request });
  const { response = {}, details } = await engine.ask(asked);
  const told = response["quote_details"] as Record<string, string & number & Buffer> | undefined;
  if (told === undefined) throw new Error(`no quote: ${details}`);
  const quote = {
    requester: toHex(told["requester"]!),
    serviceId: BigInt(told["service_id"]!),
    jobIndex: told["job_index"]!,
    price: BigInt(toHex(told["price"]! as Buffer)),
    timestamp: BigInt(told["timestamp"]!),
    expiry: BigInt(told["expiry"]!),
    confidentiality: told["confidentiality"]!,
    inputsHash: toHex(told["inputs_hash"]!),
  };
  const signature = toHex(response["signature"] as Buffer);
  return { quote, signature, inputs, value: quote.price, sender: requester };
}

function bytesOf(hex: Hex): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}
