/**
 * 128 random bits in hexadecimal: two clients do not meet by chance within any server's window.
 * (`crypto.randomUUID` is missing on pages that were not loaded over HTTPS.)
 */
export function randomRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
