// Signs payments of payers without money, each of another one, before a flood begins: node … REQUIRED-FILE COUNT OUT
import { readFileSync, writeFileSync } from "node:fs";
import { createPay, newKey, requiredIn } from "./payments.ts";
import { tell } from "./plans.ts";

const [, , requiredFile = "", count = "0", out = ""] = process.argv;
const pay = createPay(requiredIn(readFileSync(requiredFile, "utf8")));
writeFileSync(out, Array.from({ length: Number(count) }, () => pay(newKey())).join("\n"));
tell("pool.signed");
