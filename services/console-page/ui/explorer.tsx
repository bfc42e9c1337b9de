import { useIsPublic } from "../api/names.ts";
import { Copyable, shortened } from "./copy.tsx";
import { Icon } from "./icons.tsx";

/** URLs of well-known block explorers, by network (CAIP-2). */
const EXPLORERS: Readonly<Record<string, string>> = {
  "eip155:1": "https://etherscan.io",
  "eip155:10": "https://optimistic.etherscan.io",
  "eip155:56": "https://bscscan.com",
  "eip155:137": "https://polygonscan.com",
  "eip155:8453": "https://basescan.org",
  "eip155:42161": "https://arbiscan.io",
  "eip155:43114": "https://snowscan.xyz",
  "eip155:59144": "https://lineascan.build",
  "eip155:80002": "https://amoy.polygonscan.com",
  "eip155:84532": "https://sepolia.basescan.org",
  "eip155:11155111": "https://sepolia.etherscan.io",
};

/**
 * Shows a transaction or address, with a button that copies it. Links to the block explorer of its network if all
 * configured nodes of the network are public. A local chain, such as the devnet, uses the id of a public chain, whose
 * explorer does not know its transactions.
 */
export function OnChain({ kind, text, network }: { kind: "tx" | "address"; text: string; network: string }) {
  const isPublic = useIsPublic(network);
  const explorer = isPublic ? EXPLORERS[network] : undefined;
  return (
    <span class="on-chain">
      <Copyable text={text} shown={shortened(text)} />
      {explorer !== undefined && /^0x[0-9a-fA-F]+$/.test(text) && (
        <a
          href={`${explorer}/${kind}/${text}`}
          target="_blank"
          rel="noopener noreferrer"
          aria-label={`${kind === "tx" ? "Transaction" : "Address"} on ${new URL(explorer).hostname}`}
          title={new URL(explorer).hostname}
        >
          <Icon name="link" />
        </a>
      )}
    </span>
  );
}
