import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "./temp-dir.ts";

/** A certificate and its private key, in PEM. */
export type Issued = { cert: string; key: string };

type Options = { by?: Issued; isCa?: boolean; days?: number };

/** Makes a certificate for a host or an authority with OpenSSL, valid from now. Without `by` it is self-signed. */
export function issue(name: string, { by, isCa = false, days = 30 }: Options = {}): Issued {
  const dir = tempDir();
  const at = (file: string) => join(dir, file);
  const issuer: string[] = [];
  if (by !== undefined) {
    writeFileSync(at("ca.pem"), by.cert);
    writeFileSync(at("ca.key"), by.key);
    issuer.push("-CA", at("ca.pem"), "-CAkey", at("ca.key"));
  }
  const basic = `basicConstraints=critical,CA:${isCa ? "TRUE" : "FALSE"}`;
  const wanted = ["-subj", `/CN=${name}`, "-addext", basic, "-days", String(days), ...issuer];
  const files = ["-keyout", at("key.pem"), "-out", at("cert.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", ...wanted, ...files], {
    stdio: "pipe",
  });
  return { cert: readFileSync(at("cert.pem"), "utf8"), key: readFileSync(at("key.pem"), "utf8") };
}
