import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Abi, Hex } from "viem";

const require = createRequire(import.meta.url);

export type Compiled = { abi: Abi; bytecode: Hex };

type Output = {
  errors?: { formattedMessage: string }[];
  contracts: Record<string, Record<string, { abi: Abi; evm: { bytecode: { object: string } } }>>;
};

/**
 * Compiles the contracts of these files, and returns them by name. `folder` is a URL that ends with a slash. A
 * warning counts as an error.
 */
export function compileSolidity(folder: URL, files: readonly string[]): Record<string, Compiled> {
  const sources = files.map((file) => [file, { content: readFileSync(new URL(file, folder), "utf8") }]);
  const settings = {
    evmVersion: "cancun",
    optimizer: { enabled: true },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode"] } },
  };
  const input = { language: "Solidity", sources: Object.fromEntries(sources), settings };
  const { errors, contracts } = JSON.parse(compiledOnce(JSON.stringify(input))) as Output;
  if (errors?.length) throw new Error(errors.map((each) => each.formattedMessage).join("\n"));
  const compiled = Object.values(contracts).flatMap((file) =>
    Object.entries(file).map(([name, { abi, evm }]): [string, Compiled] => [
      name,
      { abi, bytecode: `0x${evm.bytecode.object}` },
    ]),
  );
  return Object.fromEntries(compiled);
}

/**
 * Compiles an input, or returns the earlier result. Loading the compiler takes each test worker a second, so results
 * are cached beside the build.
 */
function compiledOnce(input: string): string {
  const { version } = require("solc/package.json") as { version: string };
  const hash = createHash("sha256").update(version).update(input).digest("hex");
  const folder = new URL("../../dist/.solidity/", import.meta.url);
  const kept = new URL(`${hash}.json`, folder);
  try {
    return readFileSync(kept, "utf8");
  } catch {
    const solc = require("solc") as { compile(input: string): string };
    const output = solc.compile(input);
    mkdirSync(folder, { recursive: true });
    // Another worker may write the same result. Each writes its own file and renames it, so that a reader never sees
    // a part of it.
    const own = new URL(`${hash}.${process.pid}`, folder);
    writeFileSync(own, output);
    renameSync(own, kept);
    return output;
  }
}
