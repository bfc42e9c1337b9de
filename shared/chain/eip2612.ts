import { domainProblem } from "./domain-check.ts";
import { addressWord, type Hex, selectorOf, uintWord } from "./encoding.ts";
import { PROBE_ACCOUNT } from "./proof.ts";
import { callIfImplemented, hasFunction, type Reads } from "./rpc.ts";
import { type Eip712Domain, hashOfText } from "./typed-data.ts";

/** A permit with which an owner lets `spender` move this amount of a token (EIP-2612). The signature is r, s, v: 65 bytes. */
type TokenPermit = { owner: Hex; spender: Hex; value: bigint; deadline: bigint; signature: Hex };

const PERMIT = selectorOf("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)");

/** The call data of `permit`. The nonce is part of the signed message, but not of the call. */
export function permitCall({ owner, spender, value, deadline, signature }: TokenPermit): Hex {
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
  const words = [addressWord(owner), addressWord(spender), uintWord(value), uintWord(deadline)];
  return `${PERMIT}${words.join("")}${v.padStart(64, "0")}${r}${s}`;
}

const PERMIT_TYPE_HASH = hashOfText(
  "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)",
);

/** Returns reasons why a token does not accept permits of EIP-2612 with this domain. An undefined entry means no problem. */
export async function eip2612Problems(
  reads: Reads,
  domain: Eip712Domain & { verifyingContract: Hex },
): Promise<(string | undefined)[]> {
  const { name, version, verifyingContract: to } = domain;
  const configured = `eip2612_domain = { name = "${name}", version = "${version}" } is`;
  // EIP-2612 does not require PERMIT_TYPEHASH(). DAI has this function, but its permits differ from EIP-2612.
  const typeHash = await callIfImplemented(reads, { to, data: selectorOf("PERMIT_TYPEHASH()") });
  const isOther = typeHash?.length === 66 && typeHash !== `0x${PERMIT_TYPE_HASH}`;
  const nonces = `${selectorOf("nonces(address)")}${addressWord(PROBE_ACCOUNT.from)}` as const;
  return [
    await domainProblem(reads, domain, configured),
    (await hasFunction(reads, { to, data: nonces }))
      ? undefined
      : "its contract does not implement nonces(address) of EIP-2612: remove eip2612_domain",
    isOther ? "its permit is not that of EIP-2612: remove eip2612_domain" : undefined,
  ];
}
