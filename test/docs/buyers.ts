import { type Block, blocksOf } from "./blocks.ts";

/** A buyer's program that docs/payments.md prints, and the commands that install its client. */
export type Buyer = { install: Block; program: Block };

const LANGUAGES = ["python", "go", "rust"];

/** Whether a block is a buyer's program in a language that no other test runs. */
export function isBuyer({ language }: Pick<Block, "language">): boolean {
  return LANGUAGES.includes(language);
}

const blocks = blocksOf("docs/payments.md");

/** The first buyer in each language. The block before it has the install commands. */
export const BUYERS: readonly Buyer[] = blocks.flatMap((program, i) => {
  const install = blocks[i - 1];
  return install?.language === "sh" && install.words[0] === "elsewhere" && program.language !== "sh"
    ? [{ install, program }]
    : [];
});
