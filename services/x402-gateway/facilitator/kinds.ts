import type { SupportedKind } from "@x402/core/types";
import type { GasSponsoring } from "../schemes/scheme.ts";

export type PaymentKind = {
  x402Version: 1 | 2;
  scheme: string;
  network: string;
  /** Protocol extension that the payment needs, and that the facilitator must support too. */
  extension?: GasSponsoring | undefined;
};

/** Kinds and extensions that a facilitator has reported. */
export type Supported = { kinds: readonly SupportedKind[]; extensions: readonly string[] };

/** A set of kinds of payment: those that one facilitator supports, or those that can be offered now. */
export type Kinds = { supports(kind: PaymentKind): boolean };

/** End of a network name that means all networks of a family, as in `eip155:*`. A facilitator may report such names. */
const ANY = ":*";

/**
 * Makes an index of the kinds that a facilitator has reported. The list may have thousands of entries, and each payment needs a
 * lookup in it.
 */
export function toKinds({ kinds: list, extensions: names }: Supported): Kinds {
  const isWild = ({ network }: SupportedKind) => network.endsWith(ANY);
  const exact = new Set(list.filter((kind) => !isWild(kind)).map((kind) => nameOf(kind, kind.network)));
  const wild = new Set(list.filter(isWild).map((kind) => nameOf(kind, kind.network.slice(0, -ANY.length))));
  const extensions = new Set(names);
  return {
    supports(kind) {
      const { network, extension } = kind;
      if (extension !== undefined && !extensions.has(extension)) return false;
      if (exact.has(nameOf(kind, network))) return true;
      return wild.size > 0 && network.includes(":") && wild.has(nameOf(kind, network.split(":")[0] ?? ""));
    },
  };
}

function nameOf({ x402Version, scheme }: Pick<SupportedKind, "x402Version" | "scheme">, network: string) {
  return `${x402Version} ${scheme} ${network}`;
}
