import type { SupportedKind } from "@x402/core/types";

export type PaymentKind = { x402Version: 1 | 2; scheme: string; network: string };

/** What one facilitator says that it takes. */
export type Kinds = { takes(kind: PaymentKind): boolean };

/** Facilitators may announce all networks of a kind: `eip155:*`. */
const ANY = ":*";

/** As a facilitator lists them; the list may have thousands of entries, and is looked at for every payment. */
export function toKinds(list: readonly SupportedKind[]): Kinds {
  const isWild = ({ network }: SupportedKind) => network.endsWith(ANY);
  const exact = new Set(list.filter((kind) => !isWild(kind)).map((kind) => nameOf(kind, kind.network)));
  const wild = new Set(list.filter(isWild).map((kind) => nameOf(kind, kind.network.slice(0, -ANY.length))));
  return {
    takes(kind) {
      const { network } = kind;
      if (exact.has(nameOf(kind, network))) return true;
      return wild.size > 0 && network.includes(":") && wild.has(nameOf(kind, network.split(":")[0] ?? ""));
    },
  };
}

function nameOf({ x402Version, scheme }: Pick<SupportedKind, "x402Version" | "scheme">, network: string) {
  return `${x402Version} ${scheme} ${network}`;
}
