// The token goes in a header, once: not in an address, which is kept in histories and logs.
const form = document.getElementById("login");
form.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const token = document.getElementById("token").value.trim();
  const answer = await fetch("/session", { headers: { authorization: `Bearer ${token}` } });
  if (answer.ok) location.reload();
  else document.getElementById("wrong").textContent = "This is not the token.";
});
