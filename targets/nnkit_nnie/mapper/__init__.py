"""What the vendor's mapper gets, how it is run, and the dumps that it leaves."""
