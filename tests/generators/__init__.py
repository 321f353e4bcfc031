"""What is drawn at random: requests in the keys of any vendor, and hostile documents; and the decision on a pod."""
