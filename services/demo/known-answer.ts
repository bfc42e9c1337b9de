/** Keccak-256 of the five bytes "hello", as published in many places; computed by nothing of ours. */
export const KECCAK256_OF_HELLO = "0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8";
