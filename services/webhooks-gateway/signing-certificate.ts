import { type KeyObject, X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { rejected } from "../../shared/webhook-auth/rejected.ts";

/** Verified certificate with which a sender signs its messages. */
export type SigningCertificate = {
  readonly key: KeyObject;
  /** Period in which all certificates of the chain are valid, in Unix milliseconds. */
  readonly from: number;
  readonly until: number;
};

type Options = {
  /** Host names. The certificate must be valid for one of them. */
  names: readonly string[];
  /** Trusted certificate authorities in PEM. */
  roots?: readonly string[] | undefined;
  /**
   * Accepts a certificate that comes without its issuers, and cannot be traced to a trusted authority. Only the TLS
   * connection over which it was fetched then proves its origin.
   */
  isLeafEnough: boolean;
  now: number;
};

const CERTIFICATES_MAX = 8;
const PEM = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/**
 * Reads a signing certificate, which comes first in the text, and the chain of its issuers after it. Throws an error
 * with the reason if the certificate cannot be trusted now.
 */
export function readCertificate(
  text: string,
  { names, roots, isLeafEnough, now }: Options,
): SigningCertificate {
  const pems = text.match(PEM) ?? [];
  if (pems.length > CERTIFICATES_MAX) throw new Error(`there are more than ${CERTIFICATES_MAX} certificates`);
  const chain = pems.map((pem) => new X509Certificate(pem));
  const [leaf, ...issuers] = chain;
  if (leaf === undefined) throw new Error("there is no certificate in PEM");
  const { publicKey: key } = leaf;
  const certificate = {
    key,
    from: Math.max(...chain.map(({ validFrom }) => Date.parse(validFrom))),
    until: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
  };
  if (!isValidAt(certificate, now)) throw new Error("the signing certificate is not valid now");
  if (!names.some((name) => leaf.checkHost(name, { wildcards: false }) !== undefined))
    throw new Error(`the signing certificate is not for ${names.join(" or ")}`);
  if (key.asymmetricKeyType !== "rsa" || (key.asymmetricKeyDetails?.modulusLength ?? 0) < 2048)
    throw new Error("the signing certificate has no RSA key of at least 2048 bits");
  if (!(isLeafEnough && issuers.length === 0) && !leadsToRoot(chain, roots ?? rootCertificates))
    throw new Error("the signing certificate has no chain that leads to a root");
  return certificate;
}

/**
 * Returns the key of a certificate that was read earlier. Throws `webhook.credential_rejected` if the certificate has
 * expired since.
 */
export function keyOf(certificate: SigningCertificate, now: number): KeyObject {
  if (isValidAt(certificate, now)) return certificate.key;
  throw rejected("mismatch", "the signing certificate is not valid now");
}

/**
 * Returns whether a URL is `start` plus a name of this form. It compares the text without parsing it. So it does not
 * matter whether the parser of the later fetch would read the URL differently.
 */
export function isUrlBelow(start: string, name: RegExp, url: string): boolean {
  return url.startsWith(start) && name.test(url.slice(start.length));
}

/** Returns whether the certificate is valid now. A date that cannot be parsed makes it invalid. */
function isValidAt({ from, until }: SigningCertificate, now: number): boolean {
  return from <= now && now <= until;
}

/** Returns whether each certificate is issued by the next one, and the last one by a root. */
function leadsToRoot(chain: readonly X509Certificate[], roots: readonly string[]): boolean {
  return chain.every((certificate, at) => {
    const next = chain[at + 1];
    return next === undefined ? isOfRoot(certificate, roots) : isIssuedBy(certificate, next);
  });
}

function isOfRoot(certificate: X509Certificate, roots: readonly string[]): boolean {
  return roots.some((pem) => {
    const root = new X509Certificate(pem);
    return root.raw.equals(certificate.raw) || isIssuedBy(certificate, root);
  });
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}
