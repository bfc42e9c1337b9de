// Signs payments before a flood begins, each of a different payer without money. Usage: node … REQUIRED-FILE COUNT OUT
import { readFileSync, writeFileSync } from "node:fs";
import { createPay, newKey, requiredIn } from "./payments.ts";
import { printEvent } from "./plans.ts";

const [, , requiredFile = "", count = "0", out = ""] = process.argv;
const pay = createPay(requiredIn(readFileSync(requiredFile, "utf8")));
writeFileSync(out, Array.from({ length: Number(count) }, () => pay(newKey())).join("\n"));
printEvent("pool.signed");
