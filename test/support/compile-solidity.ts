import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Abi, Hex } from "viem";

const solc = createRequire(import.meta.url)("solc") as { compile(input: string): string };

export type Compiled = { abi: Abi; bytecode: Hex };

type Output = {
  errors?: { formattedMessage: string }[];
  contracts: Record<string, Record<string, { abi: Abi; evm: { bytecode: { object: string } } }>>;
};

/** The contracts of these files, by name; `folder` is a URL that ends with a slash. A warning is an error. */
export function compileSolidity(folder: URL, files: readonly string[]): Record<string, Compiled> {
  const sources = files.map((file) => [file, { content: readFileSync(new URL(file, folder), "utf8") }]);
  const settings = {
    evmVersion: "cancun",
    optimizer: { enabled: true },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode"] } },
  };
  const input = { language: "Solidity", sources: Object.fromEntries(sources), settings };
  const { errors, contracts } = JSON.parse(solc.compile(JSON.stringify(input))) as Output;
  if (errors?.length) throw new Error(errors.map((each) => each.formattedMessage).join("\n"));
  const compiled = Object.values(contracts).flatMap((file) =>
    Object.entries(file).map(([name, { abi, evm }]): [string, Compiled] => [
      name,
      { abi, bytecode: `0x${evm.bytecode.object}` },
    ]),
  );
  return Object.fromEntries(compiled);
}
