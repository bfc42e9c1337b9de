// Made by compile.mjs from Wallet.sol.

import { parseAbi } from "viem";

export const walletAbi = parseAbi([
  "constructor(address owner_)",
  "error NotOwner()",
  "function answers() view returns (uint8)",
  "function execute(address to, bytes data) returns (bytes)",
  "function isValidSignature(bytes32 digest, bytes signature) view returns (bytes4)",
  "function owner() view returns (address)",
  "function setAnswers(uint8 how)",
  "function setOwner(address to)",
]);
