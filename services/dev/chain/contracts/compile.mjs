/**
 * Compiles the contracts and writes their code beside the sources. The results are committed, so that a compiler is
 * needed only after a change of a contract.
 *
 *   node services/dev/chain/contracts/compile.mjs            writes
 *   node services/dev/chain/contracts/compile.mjs --check    exits with 1 if the written files do not match the sources
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const { resolve } = createRequire(import.meta.url);
const { formatAbi } = createRequire(resolve("viem"))("abitype");
const here = fileURLToPath(new URL(".", import.meta.url));

const ours = [
  { source: "Token.sol", contract: "Token", file: "token.ts", prefix: "token" },
  { source: "OddToken.sol", contract: "OddToken", file: "odd-token.ts", prefix: "oddToken" },
  {
    source: "CallerRegistry.sol",
    contract: "CallerRegistry",
    file: "caller-registry.ts",
    prefix: "registry",
  },
  { source: "Permit2.sol", contract: "Permit2", file: "permit2.ts", prefix: "permit2" },
  {
    source: "ExactPermit2Proxy.sol",
    contract: "ExactPermit2Proxy",
    file: "exact-permit2-proxy.ts",
    prefix: "exactPermit2Proxy",
    // The ABI has structs in structs, which are nested too deeply for the types of viem's `parseAbi`.
    abiAsJson: true,
  },
  { source: "Usdt.sol", contract: "Usdt", file: "usdt.ts", prefix: "usdt" },
  { source: "Dai.sol", contract: "Dai", file: "dai.ts", prefix: "dai" },
  {
    source: "WalletFactory.sol",
    contract: "WalletFactory",
    file: "wallet-factory.ts",
    prefix: "walletFactory",
  },
  // Only the ABI is written. The devnet does not need the wallet's code, because the code of the factory contains it.
  { source: "Wallet.sol", contract: "Wallet", file: "wallet.ts", prefix: "wallet", abiOnly: true },
];

const imported = ["ContractWallet.sol"];

/**
 * Compiles the contracts. The compiler leaves out its metadata, which contains a hash of the sources, so that a change of
 * a comment does not change the code. The devnet puts the runtime code at an address and runs no constructor. This works
 * because no contract has immutables, which a constructor would write into the code.
 */
function compile() {
  const input = {
    language: "Solidity",
    sources: Object.fromEntries(
      [...ours.map(({ source }) => source), ...imported].map((source) => [
        source,
        { content: readFileSync(join(here, source), "utf8") },
      ]),
    ),
    settings: {
      viaIR: true,
      evmVersion: "cancun",
      optimizer: { enabled: true, runs: 200 },
      metadata: { appendCBOR: false, bytecodeHash: "none" },
      outputSelection: { "*": { "*": ["abi", "evm.deployedBytecode"] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  if (output.errors?.length) throw new Error(output.errors.map((each) => each.formattedMessage).join("\n"));
  return output.contracts;
}

/**
 * Returns the runtime code of Multicall3 (MIT, github.com/mds1/multicall3). viem contains the creation code, in which
 * the runtime code follows after 32 bytes.
 */
function multicall3() {
  const text = readFileSync(resolve("viem").replace(/_cjs.*$/, "_esm/constants/contracts.js"), "utf8");
  const creation = /multicall3Bytecode = '0x([0-9a-f]+)'/.exec(text)[1];
  const runtimeBytes = Number.parseInt(/61([0-9a-f]{4})80610020/.exec(creation)[1], 16);
  return `0x${creation.slice(64, 64 + 2 * runtimeBytes)}`;
}

function* artefacts() {
  const contracts = compile();
  for (const { source, contract, file, prefix, abiOnly, abiAsJson } of ours) {
    const { abi, evm } = contracts[source][contract];
    if (Object.keys(evm.deployedBytecode.immutableReferences).length > 0)
      throw new Error(`${contract} has immutables`);
    const code = abiOnly ? undefined : `0x${evm.deployedBytecode.object}`;
    yield { file, text: written({ from: source, prefix, code, abi, abiAsJson }) };
  }
  const multicall = { from: "viem's copy of Multicall3", prefix: "multicall3", code: multicall3() };
  yield { file: "multicall3.ts", text: written(multicall) };
}

function written({ from, prefix, code, abi, abiAsJson = false }) {
  const head = `// Made by compile.mjs from ${from}.\n\n`;
  const codeLine = code === undefined ? "" : `export const ${prefix}Code = ${JSON.stringify(code)};\n`;
  if (abi === undefined) return formatted(head + codeLine);
  if (abiAsJson) {
    const json = JSON.stringify(abi, (key, value) => (key === "internalType" ? undefined : value));
    return formatted(`${head}${codeLine}\nexport const ${prefix}Abi = ${json} as const;\n`);
  }
  const signatures = JSON.stringify(formatAbi(abi));
  const abiLine = `export const ${prefix}Abi = parseAbi(${signatures});\n`;
  return formatted(`${head}import { parseAbi } from "viem";\n\n${codeLine}\n${abiLine}`);
}

function formatted(text) {
  const args = [resolve("@biomejs/biome/bin/biome"), "format", "--stdin-file-path=artefact.ts"];
  return execFileSync(process.execPath, args, { input: text, encoding: "utf8" });
}

for (const { file, text } of artefacts()) {
  const path = join(here, file);
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) {
    console.error(`${file} does not match its source: run compile.mjs`);
    process.exitCode = 1;
  }
}
