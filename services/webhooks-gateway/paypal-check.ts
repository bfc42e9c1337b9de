import { verify } from "node:crypto";
import { crc32 } from "node:zlib";
import { decodeStrictly } from "../../shared/platform/text/strict-base64.ts";
import type { PayPalMessage } from "../../shared/webhook-auth/auth-modes.ts";
import { need, rejected, wellFormed } from "../../shared/webhook-auth/rejected.ts";
import { RequestValues } from "../../shared/webhook-auth/template.ts";
import type { Check, CheckDeps } from "./check.ts";
import { checkTime } from "./signature-timestamp.ts";
import { isUrlBelow, keyOf, readCertificate } from "./signing-certificate.ts";

const CERTIFICATE_NAME = /^CERT-[0-9A-Za-z-]{1,100}$/;

/**
 * Checks deliveries of PayPal. The signature covers the delivery's id and time, the webhook's id, and the CRC-32 of the
 * body. Throws `webhook.credential_rejected` and `webhook.keys_unavailable`.
 */
export function createPayPalCheck(
  { webhookId, isSandbox, timestamp }: PayPalMessage,
  { path }: { readonly path: string },
  { clock, documents, rootCertificates: roots }: CheckDeps,
): Check {
  const domain = isSandbox ? "sandbox.paypal.com" : "paypal.com";
  const names = [`messageverificationcerts.${domain}`];
  const certificates = documents.open(path, (pem) =>
    readCertificate(pem, { names, roots, isLeafEnough: false, now: clock() }),
  );

  return async (req, address) => {
    const values = new RequestValues(req);
    const header = (name: string) => need(values.header([`paypal-${name}`]));
    const id = header("transmission-id");
    const time = header("transmission-time");
    const sent = header("transmission-sig");
    const url = header("cert-url");
    if (header("auth-algo") !== "SHA256withRSA")
      throw rejected("malformed", "header paypal-auth-algo must be SHA256withRSA");
    if (!isUrlBelow(`https://api.${domain}/v1/notifications/certs/`, CERTIFICATE_NAME, url))
      throw rejected("mismatch", `header paypal-cert-url must be that of a certificate at api.${domain}`);
    checkTime(time, timestamp, clock());
    const signature = wellFormed(
      decodeStrictly(sent, "base64"),
      () => "header paypal-transmission-sig must be base64",
    );
    const key = keyOf(await certificates.get(url, address), clock());

    function checkSum(sum: number): undefined {
      const signed = Buffer.from(`${id}|${time}|${webhookId}|${sum}`);
      if (!verify("sha256", signed, key, signature)) throw rejected("mismatch");
      certificates.markProven(url);
    }
    let sum = 0;
    return {
      take(chunk) {
        sum = crc32(chunk, sum);
      },
      checkTaken: () => checkSum(sum),
      check: ({ body }) => checkSum(crc32(body)),
    };
  };
}
